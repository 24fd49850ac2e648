// Strategy row_lock: the lock is an open transaction of a session, and nothing else.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Ends the session that holds the row lock on `name`, as the server's administrator would, or a time limit
/// of the server's.
void end_session_of(fixture& f, lock_manager& m, std::string const& name) {
  if (dialect_of(f) == dialect::postgresql) {
    for (auto const& l : m.list())
      if (l.name == name && l.held)
        f.sql("SELECT pg_terminate_backend(" + std::to_string(l.holder.owner.pid) + ")");
    return;
  }
  auto const session = f.connect();
  backend::statement const holders{"holders",
                                   "SELECT p.id FROM information_schema.processlist AS p JOIN "
                                   "information_schema.innodb_trx AS t ON t.trx_mysql_thread_id = p.id "
                                   "WHERE p.db = database() AND p.id <> connection_id()"};
  // innodb_trx shows nothing new as long as anybody on the server looks at it more often than ten times a
  // second: others do so in other cases.
  std::minstd_rand random{std::random_device{}()};
  REQUIRE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 300));
    auto const found = session->execute(holders, {}, boot_clock::now() + 30s);
    for (auto const& columns : found.rows)
      session->script("KILL " + std::to_string(backend::as_int(columns.at(0))), boot_clock::now() + 30s);
    return !found.rows.empty();
  }));
}

/// Only PostgreSQL tells everybody who it is.
constexpr bool tells_holder(running_pair const& pair) { return pair.engine == dialect::postgresql; }
constexpr bool holders_told(running_pair const& p) { return row_locks(p) && tells_holder(p); }

template <class Call>
errc refused(Call const& call) {
  try {
    call();
  } catch (error const& e) {
    return e.reason();
  }
  return {};
}

}  // namespace

ROW_LOCK_CASE("C94: a row lock has no term to trust, extend, limit or revoke, and says so") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").try_acquire();
  REQUIRE(lock);
  CHECK_FALSE(lock->trusted_until());
  CHECK(lock->valid());
  CHECK_FALSE(lock->token());
  CHECK(refused([&] { (void)lock->extend(1s); }) == errc::unsupported);
  CHECK(refused([&] { (void)m->revoke("x", revoke_mode::now); }) == errc::unsupported);
  CHECK_FALSE(m->revoke("y", revoke_mode::now));
  for (auto const& o : std::vector<mutex_options>{{.renew = false},
                                                  {.at_least = 1s},
                                                  {.hard_limit = 1s},
                                                  {.takeover = takeover::observed},
                                                  {.owner = takes_over{"job"}},
                                                  {.note = "n"}})
    CHECK(refused([&] { (void)m->make_mutex("y", o); }) == errc::unsupported);
  CHECK(lock->release() == release_result::released);
  CHECK(lock->release() == release_result::released);
}

ROW_LOCK_CASE("list shows a row lock as held, and by which session") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").try_acquire();
  auto const listed = m->list();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].name == "x");
  CHECK(listed[0].held);
  CHECK(listed[0].holder.strategy == strategy::row_lock);
  if (tells_holder(pair)) {
    CHECK(listed[0].holder.owner.pid > 0);
    auto const age = std::chrono::system_clock::now() - listed[0].holder.acquired_at;
    CHECK(age > -60s);
    CHECK(age < 60s);
  }
  stranger other(f);
  CHECK_FALSE(other.take("x"));
  REQUIRE(lock->release() == release_result::released);
  CHECK(m->list().empty());
  CHECK(m->list({.idle = true}).size() == 1);
}

// InnoDB tells nobody but an administrator who has locked a row, so that list has to try.
ROW_LOCK_CASE(
    "C20: a try of a free name beside list is not told busy, and list shows no lock that nobody holds") {
  constexpr int anchors = 1500;
  std::string rows;
  for (int i = 0; i < anchors; ++i)
    rows += fmt::format("{}('a{}', 'row_lock', 0, {})", i == 0 ? "" : ",", i, in_ms(f, 0));
  f.sql("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES " + rows);
  auto const holding = f.manager();
  auto held = holding->make_mutex("held").try_acquire();
  REQUIRE(held);
  std::atomic<bool> enough{false};
  std::atomic<int> lists{0};
  std::atomic<int> held_by_nobody{0};
  std::atomic<int> not_shown{0};
  int busy = 0;
  {
    std::vector<std::jthread> lookers;
    for (int i = 0; i < 2; ++i)
      lookers.emplace_back([&] {
        auto const m = f.manager();
        while (!enough) {
          bool shown = false;
          for (auto const& l : m->list())
            if (l.name == "held")
              shown = true;
            else if (l.name != "a700")
              ++held_by_nobody;
          not_shown += shown ? 0 : 1;
          ++lists;
        }
      });
    auto const m = f.manager();
    auto x = m->make_mutex("a700");
    for (int i = 0; i < 300 || lists < 20; ++i) busy += x.try_acquire() ? 0 : 1;
    enough = true;
  }
  CHECK(busy == 0);
  CHECK(held_by_nobody == 0);
  CHECK(not_shown == 0);
}

ROW_LOCK_CASE("C20: a name that somebody only looks at is busy when somebody holds it, too") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::atomic<bool> enough{false};
  std::jthread const looker([&] {
    auto const looking = f.manager();
    while (!enough) (void)looking->list();
  });
  for (int i = 0; i < 50; ++i) CHECK(x.try_acquire().status() == acquire_status::busy);
  other.release("x");
  CHECK(x.try_acquire());
  enough = true;
}

ROW_LOCK_CASE("busy names the session that holds it") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  auto const got = m->make_mutex("x").try_acquire();
  CHECK(got.status() == acquire_status::busy);
  REQUIRE(got.holder());
  CHECK((got.holder()->owner.pid > 0) == tells_holder(pair));
  CHECK(m->make_mutex("x").try_acquire_for(200ms).status() == acquire_status::timed_out);
}

ROW_LOCK_CASE("a token is drawn if asked for, on a connection that is there no longer than that") {
  auto const m = f.manager();
  std::int64_t last = 0;
  for (int i = 0; i < 100; ++i) {
    auto const lock = m->make_mutex("x", {.fencing = true}).try_acquire();
    REQUIRE(lock);
    REQUIRE(lock->token().value > last);
    last = lock->token().value;
    CHECK(f.probe->connections == 1);
  }
}

ROW_LOCK_CASE("B2: tokens of a contended row lock rise in the order of the owners") {
  std::mutex guard;
  std::vector<std::int64_t> order;
  {
    std::vector<std::unique_ptr<lock_manager>> managers;
    for (int i = 0; i < 4; ++i) managers.push_back(f.manager());
    std::vector<std::jthread> threads;
    for (auto& m : managers)
      threads.emplace_back([&] {
        auto x = m->make_mutex("x", {.fencing = true});
        for (int i = 0; i < 25; ++i) {
          auto const lock = x.acquire();
          std::lock_guard const hold(guard);
          order.push_back(lock->token().value);
        }
      });
  }
  CHECK(order.size() == 100);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(std::adjacent_find(order.begin(), order.end()) == order.end());
}

// The session ends while the token is drawn: another owner may have come in between, and have drawn a lower
// one.
ROW_LOCK_CASE("a token that was drawn while the session ended is not believed") {
  std::atomic<int> draws{0};
  auto const m = f.manager();
  stranger other(f);
  { auto const makes_rows = m->make_mutex("x", {.fencing = true}).acquire(); }
  f.probe->reset();
  f.probe->before = [&](std::string const& s) {
    if (s != "token_draw" || draws++ > 0) return;
    end_session_of(f, *m, "x");
    REQUIRE(eventually([&] { return other.take("x"); }));
    other.release("x");
  };
  auto const lock = m->make_mutex("x", {.fencing = true}).try_acquire_for(60s);
  REQUIRE(lock);
  CHECK(draws == 2);
  CHECK(f.probe->executed("lock_take") == 2);
}

ROW_LOCK_CASE("K9, K11, B30: a session that the server ended is found out by a ping, and its holder told") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.ttl = 900ms}).try_acquire();
  REQUIRE(lock);
  std::atomic<bool> told{false};
  std::stop_callback const on_loss(lock->loss_token(), [&] { told = true; });
  end_session_of(f, *m, "x");
  CHECK(eventually([&] { return told.load(); }));
  CHECK(lock->loss() == loss_reason::session_ended);
  CHECK_FALSE(lock->valid());
  CHECK(lock->release() == release_result::already_lost);
  CHECK(m->make_mutex("x").try_acquire_for(60s));
}

ROW_LOCK_CASE("R2: giving back a row lock whose session has ended says that it was lost") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x").try_acquire();
  end_session_of(f, *m, "x");
  CHECK(lock->release() == release_result::already_lost);
  CHECK(lock->loss() == loss_reason::session_ended);
}

ROW_LOCK_CASE("T7: an anchor that was deleted while one waited for it is made again") {
  stranger other(f);
  REQUIRE(other.take("x"));
  auto const m = f.manager();
  std::optional<acquisition> got;
  f.probe->reset();
  std::jthread waiter([&] { got.emplace(m->make_mutex("x").try_acquire_for(30s)); });
  REQUIRE(eventually([&] { return f.probe->executed("lock_take") == 1; }));
  // By the holder itself, so that the waiter finds no row when the wait is over.
  other.session().script(f.tables().render("DELETE FROM rowlock_locks WHERE name = 'x'"),
                         boot_clock::now() + 30s);
  other.session().script("COMMIT", boot_clock::now() + 30s);
  waiter.join();
  REQUIRE(*got);
  CHECK_FALSE(other.take("x"));
}

ROW_LOCK_CASE(
    "an anchor that was not used for an hour is touched when it was given back, a younger one is not") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_anchor = x.acquire(); }
  CHECK(f.probe->executed("row_touch") == 0);
  f.sql(tells_holder(pair) ? "UPDATE rowlock_locks SET expires_at = clock_timestamp() - interval '2 hours'"
                           : "UPDATE rowlock_locks SET expires_at = utc_timestamp(6) - INTERVAL 2 HOUR");
  { auto const lock = x.acquire(); }
  CHECK(f.probe->executed("row_touch") == 1);
  CHECK(other.read("x")->holder.expires_in > -60s);
  { auto const lock = x.acquire(); }
  CHECK(f.probe->executed("row_touch") == 1);
}

// T9: the lock is granted, times out and is cancelled at the same moment, in every order; whatever the caller
// is told, the lock is with it or with nobody.
ROW_LOCK_CASE("T9, T18: timeout, cancel and grant at the same moment leak no lock, hundreds of times") {
  // Each that is cancelled costs a session: over all pairs there are a thousand.
  constexpr int rounds = 200;
  stranger other(f);
  auto const m = f.manager();
  auto const taker = f.manager();
  auto x = m->make_mutex("x");
  auto y = taker->make_mutex("x");
  { auto const makes_anchor = x.acquire(); }
  int had = 0;
  int timed_out = 0;
  int cancelled = 0;
  for (int i = 0; i < rounds; ++i) {
    // A session whose client has gone may get the lock yet, for as long as it takes to notice that.
    REQUIRE(eventually([&] { return other.take("x"); }));
    f.probe->reset();
    std::stop_source stop;
    // In some rounds all but one of the three is kept away, so that each is seen on a busy machine, too.
    auto const alone = i % 10 == 1   ? std::optional(acquire_status::acquired)
                       : i % 50 == 3 ? std::optional(acquire_status::cancelled)
                       : i % 50 == 6 ? std::optional(acquire_status::timed_out)
                                     : std::nullopt;
    auto const patience = i % 2 == 0 ? std::chrono::milliseconds(1 + i % 7) : 60s;
    acquire_status status{};
    {
      std::jthread waiter([&] {
        auto const got = x.try_acquire_for(patience, stop.get_token());
        status = got.status();
      });
      if (alone != acquire_status::timed_out)
        REQUIRE(eventually([&] { return f.probe->executed("lock_take") >= 1; }));
      auto const release_first = i % 3 == 0;
      if (!alone && release_first) other.release("x");
      if (alone ? alone == acquire_status::cancelled : i % 4 != 0) stop.request_stop();
      if (alone && alone != acquire_status::acquired) waiter.join();
      if (alone || !release_first) other.release("x");
    }
    if (alone) CHECK(status == *alone);
    had += status == acquire_status::acquired;
    timed_out += status == acquire_status::timed_out;
    cancelled += status == acquire_status::cancelled;
    // The next one gets it at once: nobody has it, and nobody who is gone waits for it.
    auto const next = y.try_acquire_for(60s);
    REQUIRE(next);
  }
  MESSAGE("had ", had, ", timed out ", timed_out, ", cancelled ", cancelled);
  CHECK(had + timed_out + cancelled == rounds);
}

ROW_LOCK_CASE(
    "B41: a row lock is not granted on another strategy's row, nor another strategy's term on an anchor") {
  auto const m = f.manager();
  for (auto other : {strategy::lease, strategy::unique_insert}) {
    auto const name = std::string(to_string(other));
    {
      auto const held = m->make_mutex(name, {.strategy = other}).try_acquire();
      REQUIRE(held);
      stranger elsewhere(f);
      try {
        (void)elsewhere.take(name);
        FAIL("granted");
      } catch (error const& e) {
        CHECK(e.reason() == errc::strategy_mismatch);
      }
    }
    auto const anchor = "anchor/" + name;
    { auto const makes_anchor = m->make_mutex(anchor).try_acquire(); }
    CHECK(refused([&] { (void)m->make_mutex(anchor, {.strategy = other}).try_acquire(); }) ==
          errc::strategy_mismatch);
  }
}

ROW_LOCK_CASE("the budget of sessions is kept to, and what is beyond names the option") {
  auto o = f.options;
  o.row_lock_connections = 2;
  o.reply_timeout = 6s;
  auto const m = f.manager(o);
  auto const a = m->make_mutex("a").try_acquire();
  auto const b = m->make_mutex("b").try_acquire();
  REQUIRE(a);
  REQUIRE(b);
  try {
    (void)m->make_mutex("c").try_acquire();
    FAIL("granted");
  } catch (error const& e) {
    CHECK(e.reason() == errc::too_many_connections);
    CHECK(std::string(e.what()).find("row_lock_connections") != std::string::npos);
  }
}

ROW_LOCK_CASE("an uncontended row lock is two round trips, without anything written") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  { auto const makes_anchor = x.acquire(); }
  f.probe->reset();
  { auto const lock = x.acquire(); }
  CHECK(f.probe->executed_in_all() == 2);
  CHECK(f.probe->executed("lock_take") == 1);
  CHECK(f.probe->executed("lock_release") == 1);
}

PAIRS_CASE("a holder that has pinged keeps no snapshot, and so a freeze does not wait for it", holders_told) {
  auto const m = f.manager();
  auto const lock = m->make_mutex("x", {.ttl = 9s}).try_acquire();
  REQUIRE(lock);
  CHECK(eventually([&] {
    return number(f,
                  "SELECT count(*) FROM pg_stat_activity AS a, pg_locks AS l WHERE l.pid = a.pid AND "
                  "l.relation = 'rowlock_locks'::regclass AND l.mode = 'RowShareLock' AND "
                  "a.state = 'idle in transaction' AND a.backend_xmin IS NULL") == 1;
  }));
  CHECK(lock->valid());
}

ROW_LOCK_CASE("a server that is silent keeps no ping waiting behind another: all holders are told together") {
  constexpr int all = 6;
  std::atomic<int> pinged{0};
  std::atomic<bool> at_once{false};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s != "row_ping") return;
    ++pinged;
    // As long as this waits no reply has come to any.
    if (eventually([&] { return pinged >= all || at_once; })) at_once = true;
    throw error(errc::unreachable, "silent by the test");
  };
  std::vector<acquisition> locks;
  for (int i = 0; i < all; ++i) {
    locks.push_back(m->make_mutex(std::to_string(i), {.ttl = 60s}).try_acquire());
    REQUIRE(locks.back());
  }
  CHECK(eventually([&] { return at_once.load(); }, 60s));
  for (auto const& one : locks) CHECK(eventually([&] { return one->loss_token().stop_requested(); }));
}

ROW_LOCK_CASE("giving back does not wait for a ping that is not answered; the session ends with that") {
  stranger other(f);
  std::atomic<bool> pinging{false};
  std::atomic<bool> given_back{false};
  auto o = f.options;
  o.release_timeout = 100ms;
  auto const m = f.manager(o);
  auto lock = m->make_mutex("x", {.ttl = 600ms}).try_acquire();
  REQUIRE(lock);
  f.probe->before = [&](std::string const& s) {
    if (s != "row_ping" || pinging.exchange(true)) return;
    CHECK(eventually([&] { return given_back.load(); }));
  };
  REQUIRE(eventually([&] { return pinging.load(); }));
  CHECK(lock->release() == release_result::already_lost);
  CHECK(lock->loss() == loss_reason::session_ended);
  given_back = true;
  CHECK(eventually([&] { return other.take("x"); }));
}
