// Waiting at a wait queue: a lock of the server's, in whose line several processes wait for a name. It
// decides nothing: whatever becomes of it, who has the lock is told by the row alone.

#include <unistd.h>

#include <mutex>
#include <thread>

#include "contract/fixture.hpp"
#include "contract/neighbour.hpp"
#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"
#include "strategy/catalogue.hpp"

using namespace rowlock;
using namespace rowlock::test;
using backend::queue_entry;

namespace {

// The reply to a DELETE has no room for it on MySQL and MariaDB.
constexpr bool is_told(running_pair const& p) { return p.engine != dialect::mysql || !inserts(p); }

constexpr bool on_postgresql(running_pair const& p) { return p.engine == dialect::postgresql; }

#define QUEUE_CASE(text) PAIRS_CASE(text, rows_on_queues)

/// One thread that waits for the lock, and gives it back when it is told.
class waiter {
 public:
  explicit waiter(lock_manager& m, mutex_options o = {}, std::string name = "x")
      : x_(m.make_mutex(std::move(name), std::move(o))), thread_([this](std::stop_token s) { wait(s); }) {}
  bool has_it() const { return has_it_; }
  bool comes_to_have_it() const {
    return eventually([&] { return has_it(); });
  }
  void give_back() { thread_ = {}; }

 private:
  void wait(std::stop_token const& stop) {
    auto got = x_.acquire(stop);
    if (!got) return;
    has_it_ = true;
    CHECK(eventually([&] { return stop.stop_requested(); }));
    result_ = got->release();
    CHECK(result_ == release_result::released);
  }
  mutex x_;
  std::atomic<bool> has_it_{false};
  release_result result_{};
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

QUEUE_CASE(
    "wait queues: who waits stands at the wait queue, keeps it with the lock, and leaves it with the lock") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  waiter w(*m);
  CHECK(eventually([&] { return next.finds_taken(); }));
  CHECK_FALSE(w.has_it());
  REQUIRE(other.release("x"));
  CHECK(w.comes_to_have_it());
  CHECK(next.finds_taken());
  w.give_back();
  CHECK(eventually([&] { return !next.finds_taken(); }));
}

QUEUE_CASE("wait queues: who stands in line asks the row nothing until its turn comes") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  REQUIRE(next.enter() == queue_entry::was_free);
  waiter w(*m);
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
  CHECK(f.probe->executed("lock_take") == 1);
  REQUIRE(other.release("x"));
  next.leave();
  CHECK(w.comes_to_have_it());
}

QUEUE_CASE("wait queues: Q1, C41: whoever is stuck with the wait queue costs the others a second") {
  stranger other(f);
  neighbour stuck(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  REQUIRE(stuck.enter() == queue_entry::was_free);
  waiter w(*m);
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
  REQUIRE(other.release("x"));
  CHECK(w.comes_to_have_it());
}

QUEUE_CASE("wait queues: one that is stuck with the lock as well costs its ttl, not more") {
  stranger other(f);
  neighbour stuck(f);
  auto const m = f.manager();
  REQUIRE(other.take("x", 1500ms));
  REQUIRE(stuck.enter() == queue_entry::was_free);
  waiter w(*m);
  CHECK(w.comes_to_have_it());
}

QUEUE_CASE("wait queues: Q1: whoever has stood at the wait queue and died lets the next one in at once") {
  stranger other(f);
  neighbour dies(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  REQUIRE(dies.enter() == queue_entry::was_free);
  waiter w(*m);
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
  REQUIRE(other.release("x"));
  dies.die();
  CHECK(w.comes_to_have_it());
}

PAIRS_CASE("wait queues: C50: who gives the lock back hears that others wait, and lines up behind them",
           all<rows_on_queues, is_told>) {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  {
    auto const first = x.acquire();
    CHECK(f.probe->executed("enter_queue") == 0);  // nobody was there
    REQUIRE(next.enter() == queue_entry::was_free);
  }
  f.probe->reset();
  waiter again(*m);
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
  CHECK(f.probe->executed("lock_take") == 0);
  CHECK_FALSE(again.has_it());
  REQUIRE(other.take("x"));
  REQUIRE(other.release("x"));
  next.leave();
  CHECK(again.comes_to_have_it());
  again.give_back();
  // Nobody is there any more.
  f.probe->reset();
  CHECK(x.acquire());
  CHECK(f.probe->executed("enter_queue") == 0);
}

// A look from before the wait would miss who came meanwhile, and nobody would ring him.
PAIRS_CASE(
    "wait queues: C40: a release that has waited for its row tells of those who came to the wait queue "
    "meanwhile",
    all<rows_on_queues, is_told, on_a_server>) {
  stranger other(f);
  neighbour next(f);
  backend::statement_book const book(f.source.implementation()->sql(), f.tables());
  strategies::catalogue const taking(book);
  REQUIRE(other.take("x"));
  strategies::name_and_term const which{"x", other.read("x")->term};
  other.session().script(
      on_postgresql(pair) ? "SET lock_timeout = '20s'" : "SET SESSION innodb_lock_wait_timeout = 20",
      boot_clock::now() + 30s);
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET note = 'locked'");
  strategies::given_back told;
  while_it_waits(
      f, other.session(),
      [&] {
        told = taking.of(pair.strategy).give_back(other.session(), which, 0ms, boot_clock::now() + 60s);
      },
      [&] {
        CHECK(next.enter() == queue_entry::was_free);
        t.commit();
      });
  CHECK(told.was_there);
  CHECK(told.others_wait);
}

// The server keeps what was notified until all who listen have heard it, which none does in a transaction;
// and tells how much it keeps, in pages of 8 kB.
PAIRS_CASE("wait queues: D5, C40: nobody notifies, by whatever text", all<leases, direct, on_postgresql>) {
  auto const looks = f.connect();
  auto const kept = [&] {
    backend::statement const usage{"usage", "SELECT (pg_notification_queue_usage() * 1000000000)::bigint"};
    return backend::as_int(looks->execute(usage, {}, boot_clock::now() + 30s).rows.at(0).at(0));
  };
  auto const m = f.manager();
  auto const listens = f.connect();
  for (auto const* sql : {"SET idle_in_transaction_session_timeout = 0", "LISTEN rowlock_test", "BEGIN"})
    listens->script(sql, boot_clock::now() + 30s);
  auto const before = kept();
  auto x = m->make_mutex("x", {.fair = true});
  for (int i = 0; i < 600; ++i) CHECK(x.acquire()->release() == release_result::released);
  CHECK(kept() <= before);
  for (auto const* more : {"1", "2"})
    f.sql(std::string("SELECT pg_notify('rowlock_test', repeat('") + more + "', 7000))");
  CHECK(kept() > before);
}

QUEUE_CASE("wait queues: try_acquire never asks for one, and overtakes") {
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(next.enter() == queue_entry::was_free);
  CHECK(m->make_mutex("x", {.fair = true}).try_acquire());
  CHECK(f.probe->executed("enter_queue") == 0);
}

PAIRS_CASE("wait queues: fair calls line up first, also for a lock that is free", on_queues) {
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(next.enter() == queue_entry::was_free);
  waiter w(*m, {.fair = true});
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
  CHECK(f.probe->executed("lock_take") == 0);
  next.leave();
  CHECK(w.comes_to_have_it());
  CHECK(next.finds_taken());
  w.give_back();
  CHECK(eventually([&] { return !next.finds_taken(); }));
}

QUEUE_CASE(
    "wait queues: a manager has no more of them than it may, and one that a lock has is given up for another "
    "name") {
  stranger other(f);
  neighbour next(f);
  auto few = f.options;
  few.queue_connections = 1;
  auto const m = f.manager(few);
  REQUIRE(other.take("x"));
  waiter first(*m);
  REQUIRE(eventually([&] { return next.finds_taken(); }));
  REQUIRE(other.release("x"));
  REQUIRE(first.comes_to_have_it());
  CHECK(next.finds_taken());
  REQUIRE(other.take("y"));
  waiter second(*m, {}, "y");
  CHECK(eventually([&] { return next.finds_taken("y"); }));
  CHECK(eventually([&] { return !next.finds_taken(); }));
  // No session for it: it tries again and again.
  REQUIRE(other.take("z"));
  waiter third(*m, {}, "z");
  REQUIRE(other.release("z"));
  CHECK(third.comes_to_have_it());
  CHECK(next.finds_free("z"));
  REQUIRE(other.release("y"));
  CHECK(second.comes_to_have_it());
  CHECK(first.has_it());
}

QUEUE_CASE("wait queues: one that is lost while the lock is held loses nothing") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  waiter w(*m);
  REQUIRE(eventually([&] { return next.finds_taken(); }));
  REQUIRE(other.release("x"));
  REQUIRE(w.comes_to_have_it());
  f.probe->before = [](std::string const& s) {
    if (s == "leave_queue") throw error(errc::unreachable, "cut off by the test");
  };
  w.give_back();  // it checks that it was released
  f.probe->before = nullptr;
  CHECK(eventually([&] { return !next.finds_taken(); }));
  CHECK(other.take("x"));
}

QUEUE_CASE(
    "wait queues: a release whose reply is lost has no time to leave the wait queue: its session ends") {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  auto x = m->make_mutex("x");
  std::optional<acquisition> got;
  {
    std::jthread const waits([&] { got = x.acquire(); });
    REQUIRE(eventually([&] { return next.finds_taken(); }));
    REQUIRE(other.release("x"));
  }
  REQUIRE(*got);
  f.probe->before = [](std::string const& s) {
    if (s == "lock_release") throw error(errc::unreachable, "cut off by the test");
  };
  CHECK((*got)->release() == release_result::in_doubt);
  CHECK(f.probe->executed("leave_queue") == 0);
  f.probe->before = nullptr;
  CHECK(eventually([&] { return !next.finds_taken(); }));
}

// The take goes on the session that has the wait queue, which ends with it.
PAIRS_CASE(
    "wait queues: a take in its turn whose reply is lost is found by its term, and the next one can come",
    all<leases, on_queues, on_a_server>) {
  stranger other(f);
  neighbour next(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  waiter w(*m);
  REQUIRE(eventually([&] { return next.finds_taken(); }));
  std::atomic<bool> free{false};
  std::atomic<bool> lost{false};
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take" && !free.exchange(true)) CHECK(other.release("x"));
  };
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && free && !lost.exchange(true)) throw error(errc::in_doubt, "cut off by the test");
  };
  CHECK(w.comes_to_have_it());
  CHECK(lost);
  CHECK(eventually([&] { return !next.finds_taken(); }));
  CHECK(w.has_it());
  w.give_back();
  f.probe->before = nullptr;
  f.probe->after = nullptr;
  CHECK(other.take("x"));
}

// It would run with this role's rights.
PAIRS_CASE("wait queues: C12: a function of another role is not called", all<leases, direct, on_postgresql>) {
  stranger other(f);
  auto const role = unique_identifier();
  auto const calls = f.options.schema + ".calls";
  f.sql("CREATE ROLE " + role + "; CREATE TABLE " + calls + " (n int)");
  f.sql(
      "CREATE OR REPLACE FUNCTION rowlock_enter_queue(name text, mark text, longest bigint) RETURNS integer "
      "LANGUAGE plpgsql AS $$ BEGIN INSERT INTO " +
      calls + " VALUES (1); RETURN 1; END $$");
  f.sql("ALTER FUNCTION rowlock_enter_queue OWNER TO " + role);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  waiter w(*m, {.retry = {.longest = 20ms}});
  REQUIRE(eventually([&] { return f.waited(4); }));
  REQUIRE(other.release("x"));
  CHECK(w.comes_to_have_it());
  auto const seen =
      f.connect()->execute({"seen", "SELECT count(*) FROM " + calls}, {}, boot_clock::now() + 30s);
  CHECK(backend::as_int(seen.rows.at(0).at(0)) == 0);
  f.sql("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

PAIRS_CASE("wait queues: without the schema's function waiters poll, and are told why",
           all<leases, direct, on_postgresql>) {
  stranger other(f);
  f.sql("DROP FUNCTION rowlock_enter_queue");
  std::mutex mutex;
  std::string told;
  auto o = f.options;
  o.on_event = [&](event const& e) {
    std::lock_guard const guard(mutex);
    if (e.kind == event_kind::error) told += e.message;
  };
  auto const m = f.manager(o);
  REQUIRE(other.take("x"));
  waiter w(*m, {.retry = {.longest = 20ms}});
  REQUIRE(eventually([&] { return f.waited(4); }));
  REQUIRE(other.release("x"));
  CHECK(w.comes_to_have_it());
  std::lock_guard const guard(mutex);
  CHECK(told.find("rowlock_enter_queue\" is missing: `rowlock migrate up` makes it") != told.npos);
  CHECK(told.find("waiting goes on without the server's help") != told.npos);
}

QUEUE_CASE("wait queues: a server that refuses them is asked once, and waiting goes on without") {
  stranger other(f);
  auto told = std::make_shared<std::atomic<int>>(0);
  auto o = f.options;
  o.on_event = [told](event const& e) {
    if (e.kind == event_kind::error) ++*told;
  };
  auto const m = f.manager(o);
  f.probe->before = [](std::string const& s) {
    if (s == "enter_queue") throw error(errc::access_denied, "denied by the test");
  };
  REQUIRE(other.take("x"));
  waiter w(*m, {.retry = {.longest = 20ms}});
  REQUIRE(eventually([&] { return f.waited(4); }));
  REQUIRE(other.release("x"));
  CHECK(w.comes_to_have_it());
  CHECK(f.probe->executed("enter_queue") == 1);
  CHECK(*told == 1);
}

QUEUE_CASE("wait queues: a wait there ends when it is stopped, and when the manager does") {
  stranger other(f);
  neighbour next(f);
  auto m = f.manager();
  REQUIRE(other.take("x"));
  REQUIRE(next.enter() == queue_entry::was_free);
  {
    waiter stopped(*m);
    REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 1; }));
    stopped.give_back();
    CHECK_FALSE(stopped.has_it());
  }
  waiter left(*m);
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") == 2; }));
  m.reset();
  left.give_back();
  CHECK_FALSE(left.has_it());
  next.leave();
  CHECK(
      eventually([&] { return !next.finds_taken(); }));  // the server sees the end of those that stood there
}

QUEUE_CASE("wait queues: a bound of attempts, or a policy, says itself when to try") {
  stranger other(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  CHECK(m->make_mutex("x", {.retry = {.first = 1ms, .attempts = 3}}).acquire().status() ==
        acquire_status::timed_out);
  int asked = 0;
  auto const policy = [&](int, holder_info const*) -> std::optional<std::chrono::milliseconds> {
    return ++asked < 3 ? std::optional(1ms) : std::nullopt;
  };
  CHECK(m->make_mutex("x", {.retry = {.policy = policy}}).acquire().status() == acquire_status::timed_out);
  CHECK(f.probe->executed("enter_queue") == 0);
}

QUEUE_CASE("wait queues: who is told whom it waits for stands there all the same") {
  stranger other(f, "holder");
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  std::atomic<int> told{0};
  std::atomic<bool> by_name{true};
  auto const holder = other.read("x")->holder.owner.process;
  auto const hear = [&](holder_info const* by) {
    if (by == nullptr || by->owner.process != holder) by_name = false;
    ++told;
  };
  waiter w(*m, {.on_wait = hear});
  REQUIRE(eventually([&] { return f.probe->executed("enter_queue") >= 1; }));
  REQUIRE(eventually([&] { return told >= 1; }));
  CHECK(by_name);
  std::atomic<std::int64_t> behind{0};
  waiter next(*m, {.on_wait = [&](holder_info const* by) { behind = by == nullptr ? -1 : 1; }});
  REQUIRE(eventually([&] { return behind != 0; }));
  CHECK(behind == -1);  // nobody of this process has it yet
  REQUIRE(other.release("x"));
  CHECK(w.comes_to_have_it());
  waiter last(*m, {.on_wait = [&](holder_info const* by) { behind = by == nullptr ? -2 : by->owner.pid; }});
  CHECK(eventually([&] { return behind == ::getpid(); }));
  w.give_back();
  CHECK(next.comes_to_have_it());
  next.give_back();
  CHECK(last.comes_to_have_it());
}
