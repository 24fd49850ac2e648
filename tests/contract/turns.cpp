// Strategy row_lock: a session for each name that is waited for, and fewer most_sessions than names.
#include <future>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr int most_sessions = 3;

std::string held_name(int i) { return "held " + std::to_string(i); }

/// Another program that holds as many names.
class other_session {
 public:
  explicit other_session(fixture& f) : session_(f.connect()) {
    session_->script(begin_of(f), boot_clock::now() + 30s);
    session_->script(f.tables().render("SELECT name FROM rowlock_locks WHERE name LIKE 'held %' FOR UPDATE"),
                     boot_clock::now() + 30s);
  }
  void end() { session_->script("ROLLBACK", boot_clock::now() + 30s); }

 private:
  std::unique_ptr<backend::connection> session_;
};

}  // namespace

ROW_LOCK_CASE("C22: those who wait for held names let a free one pass, and go on waiting") {
  auto o = f.options;
  o.row_lock_connections = most_sessions;
  o.reply_timeout = 20s;
  auto const m = f.manager(o);
  for (int i = 0; i < most_sessions; ++i) (void)m->make_mutex(held_name(i)).acquire();  // makes its anchor
  auto free = m->make_mutex("free");
  (void)free.acquire();
  other_session other(f);
  f.probe->reset();
  std::vector<std::future<bool>> waiters;
  for (int i = 0; i < most_sessions; ++i)
    waiters.push_back(std::async(std::launch::async,
                                 [&, i] { return bool(m->make_mutex(held_name(i)).try_acquire_for(120s)); }));
  CHECK(eventually([&] { return f.probe->executed("lock_take") >= most_sessions; }));
  for (int round = 0; round < 2; ++round) {
    auto const start = std::chrono::steady_clock::now();
    CHECK(free.try_acquire_for(60s));
    auto const took = std::chrono::steady_clock::now() - start;
    MESSAGE("a free name after " << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
                                 << " ms");
  }
  other.end();
  for (auto& one : waiters) CHECK(one.get());
}

ROW_LOCK_CASE(
    "C22: a call that finds all most_sessions taken ends by its own deadline, and names the limit") {
  auto o = f.options;
  o.row_lock_connections = 1;
  o.reply_timeout = 60s;
  auto const m = f.manager(o);
  auto const held = m->make_mutex("a").try_acquire();
  REQUIRE(held);
  auto const start = std::chrono::steady_clock::now();
  try {
    (void)m->make_mutex("b").try_acquire_for(300ms);
    FAIL("granted");
  } catch (error const& e) {
    CHECK(e.reason() == errc::too_many_connections);
    CHECK(std::string(e.what()).find("row_lock_connections") != std::string::npos);
  }
  CHECK(std::chrono::steady_clock::now() - start < 40s);
  std::stop_source stop;
  auto cancelled =
      std::async(std::launch::async, [&] { return m->make_mutex("b").acquire(stop.get_token()).status(); });
  stop.request_stop();
  CHECK(cancelled.get() == acquire_status::cancelled);
  CHECK(std::chrono::steady_clock::now() - start < 50s);
}
