// list() says who waits for a lock, where the server tells.
#include <atomic>
#include <future>
#include <thread>

#include "contract/fixture.hpp"
#include "contract/open_transaction.hpp"
#include "contract/permits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr bool tells_line(running_pair const& p) { return direct(p) && in_rows(p) && on_a_server(p); }
constexpr bool tells_nothing(running_pair const& p) {
  return on_sqlite(p) || !direct(p) || (row_locks(p) && p.engine != dialect::postgresql);
}
constexpr bool tells_row_locks(running_pair const& p) {
  return direct(p) && row_locks(p) && p.engine == dialect::postgresql;
}

lock_info listed(lock_manager& m, std::string const& name = "x") {
  for (auto& lock : m.list())
    if (lock.name == name) return std::move(lock);
  return {};
}

bool shows(lock_manager& m, std::optional<int> expected) {
  return eventually([&] { return listed(m).waiting == expected; });
}

/// Another process in the line of "x", until it is first, and then as long as it lives.
class in_line {
 public:
  explicit in_line(fixture& f)
      : session_(f.connect()), stands_(std::async(std::launch::async, [this, tables = f.tables()] {
          return session_->enter_queue(tables, "x", "in line", boot_clock::now() + 60s, 10s,
                                       stop_.get_token()) != backend::queue_entry::not_mine;
        })) {}
  ~in_line() { stop_.request_stop(); }
  in_line(in_line const&) = delete;
  in_line& operator=(in_line const&) = delete;
  bool comes_first() { return stands_.get(); }

 private:
  std::unique_ptr<backend::connection> session_;
  std::stop_source stop_;
  std::future<bool> stands_;
};

/// Another thread that waits for "x", and gives it back at its end.
class waiting_thread {
 public:
  explicit waiting_thread(lock_manager& m)
      : thread_([&m, this](std::stop_token const& stop) { hold(m, stop); }) {}
  bool has_it() const { return has_it_; }

 private:
  void hold(lock_manager& m, std::stop_token const& stop) {
    auto const lock = m.make_mutex("x").acquire(stop);
    has_it_ = static_cast<bool>(lock);
    while (has_it_ && !stop.stop_requested()) std::this_thread::sleep_for(5ms);
  }
  std::atomic<bool> has_it_{false};
  std::jthread thread_;
};

}  // namespace

PAIRS_CASE(
    "waiters: nobody; the first in line, who has the wait queue; two; and the holder, who keeps the wait "
    "queue",
    tells_line) {
  stranger other(f);
  auto const m = f.manager();
  auto const looking = f.manager();
  REQUIRE(other.take("x"));
  REQUIRE(other.take("y"));
  CHECK(listed(*looking).waiting == 0);
  std::optional<waiting_thread> first(std::in_place, *m);
  CHECK(shows(*looking, 1));
  in_line second(f);
  CHECK(shows(*looking, 2));
  CHECK(listed(*looking, "y").waiting == 0);
  auto const two = listed(*looking);
  REQUIRE(two.waiters.size() == 2);
  CHECK(two.waiters[0].session != two.waiters[1].session);
  for (auto const& w : two.waiters) CHECK(w.session > 0);
  CHECK_FALSE(looking->find("x")->waiting);
  REQUIRE(other.release("x"));
  REQUIRE(eventually([&] { return first->has_it(); }));
  CHECK(shows(*looking, 1));
  CHECK(looking->list({.idle = true}).size() == 2);
  first.reset();
  CHECK(second.comes_first());
}

PAIRS_CASE("waiters: a lock that was had after a wait, and is waited for by nobody, has none", tells_line) {
  stranger other(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  waiting_thread const w(*m);
  REQUIRE(shows(*m, 1));
  REQUIRE(other.release("x"));
  REQUIRE(eventually([&] { return w.has_it(); }));
  CHECK(listed(*m).waiting == 0);
}

// Whoever has waited keeps the wait queue, which its mark excuses: as the owner of the row, or of one of the
// permits.
PAIRS_CASE("waiters: a permit that was had after a wait, and is waited for by nobody, has none",
           all<tells_line, leases>) {
  auto const m = f.manager();
  auto const looking = f.manager();
  permit_taker theirs(f, strategy::semaphore, "s");
  permit_taker of_another_name(f, strategy::semaphore, "t");
  REQUIRE(theirs.take(permit_taker::of(1, 1)));
  REQUIRE(of_another_name.take(permit_taker::of(1, 1)));
  auto waits = std::async(std::launch::async, [&] { return m->make_semaphore("s", 1).acquire(); });
  CHECK(eventually([&] { return listed(*looking, "s").waiting == 1; }));
  REQUIRE(theirs.release());
  auto const mine = waits.get();
  REQUIRE(mine);
  CHECK(eventually([&] { return listed(*looking, "s").waiting == 0; }));
  CHECK(listed(*looking, "t").waiting == 0);
}

PAIRS_CASE("waiters: an idle name has no number", all<tells_line, leases>) {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  (void)x.acquire();
  for (auto const& lock : m->list({.idle = true})) CHECK_FALSE(lock.waiting);
}

PAIRS_CASE("waiters: where the database does not tell, the number is empty", tells_nothing) {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").try_acquire();
  REQUIRE(lock);
  REQUIRE(listed(*m).held);
  CHECK_FALSE(listed(*m).waiting);
  CHECK(listed(*m).waiters.empty());
}

PAIRS_CASE("waiters: who may not see them sees the locks all the same", tells_line) {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").try_acquire();
  REQUIRE(lock);
  f.probe->before = [](std::string const& s) {
    if (s == "lock_waiters") throw error(errc::access_denied, "denied by the test");
  };
  CHECK(listed(*m).held);
  CHECK_FALSE(listed(*m).waiting);
}

PAIRS_CASE("row_locks: whose open transaction has a held lock's row locked, if that is asked for",
           tells_line) {
  auto const m = f.manager();
  auto x = m->make_mutex("x").try_acquire();
  auto y = m->make_mutex("y").try_acquire();
  REQUIRE(x);
  REQUIRE(y);
  auto const locked_by = [&](char const* name) {
    for (auto const& lock : m->list({.row_locks = true}))
      if (lock.name == name) return lock.row_locked_by;
    return std::vector<waiter_info>();
  };
  open_transaction other(f);
  other.run("SELECT 1 FROM rowlock_locks WHERE name = 'x' FOR UPDATE");
  // MariaDB tells it only while a third session waits for the row. A renewal of its own has it for a moment.
  std::size_t const told = std::string(pair.backend) == "mariadb" ? 0 : 1;
  CHECK(eventually([&] { return locked_by("x").size() == told && locked_by("y").empty(); }));
  if (told == 1) {
    CHECK(locked_by("x").at(0).session > 0);
    CHECK_FALSE(locked_by("x").at(0).user.empty());
  }
  CHECK(listed(*m).row_locked_by.empty());
  f.probe->before = [](std::string const& s) {
    if (s == "lock_locked_by") throw error(errc::access_denied, "denied by the test");
  };
  CHECK(locked_by("x").empty());
  f.probe->before = nullptr;
  other.commit();
  CHECK(eventually([&] { return locked_by("x").empty(); }));
}

PAIRS_CASE("waiters: of a row lock, who waits for its row", tells_row_locks) {
  auto const holding = f.manager();
  auto lock = holding->make_mutex("x").try_acquire();
  auto other = holding->make_mutex("y").try_acquire();
  REQUIRE(lock);
  REQUIRE(other);
  CHECK(listed(*holding).waiting == 0);
  auto const names = f.tables();
  backend::statement const wait{
      "wait",
      names.render("SELECT 1 FROM rowlock_locks WHERE name = 'x' AND strategy = 'row_lock' FOR UPDATE")};
  std::stop_source stop;
  auto const stand = [&] {
    return std::async(std::launch::async, [&] {
      auto const session = f.connect();
      try {
        session->wait_for_row(wait, {}, boot_clock::now() + 60s, 10s, stop.get_token());
      } catch (error const&) {  // it was stopped
      }
    });
  };
  auto const first = stand();
  CHECK(shows(*holding, 1));
  auto const second = stand();
  CHECK(shows(*holding, 2));
  CHECK(listed(*holding, "y").waiting == 0);
  stop.request_stop();
  // Before 14 a server that waits does not notice that its client is gone.
  bool const notices = dialect_of(f) != dialect::postgresql ||
                       number(f, "SELECT current_setting('server_version_num')::bigint") >= 140'000;
  if (notices) CHECK(shows(*holding, 0));
}
