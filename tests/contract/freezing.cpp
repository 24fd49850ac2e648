// While an operator has frozen a database it grants nothing, and holders go on. These cases stand alone: a
// freeze waits for all transactions of the server. lib/doc/quarantine.md

#include <unistd.h>

#include <atomic>
#include <functional>
#include <regex>
#include <rowlock/mysql.hpp>
#include <rowlock/quarantine.hpp>
#include <thread>
#include <utility>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "contract/pulses.hpp"
#include "contract/reaping.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

#define FREEZE_CASE(text)                                                                                \
  TEST_CASE_TEMPLATE(text* doctest::description("alone"), Database, postgresql_fixture, mariadb_fixture, \
                     mysql_fixture)

template <class Options = quarantine_options>
Options freeze_tables(fixture const& f) {
  Options o;
  o.table_prefix = f.options.table_prefix;
  o.schema = f.options.schema;
  return o;
}

freeze_result freeze_now(fixture& f, std::chrono::milliseconds timeout = 60s) {
  auto o = freeze_tables<freeze_options>(f);
  o.timeout = timeout;
  return freeze(f.source, o);
}

quarantine_state thaw_now(fixture& f) { return thaw(f.source, freeze_tables(f)); }

std::int64_t newest_base(fixture& f) { return number(f, "SELECT coalesce(max(base), 0) FROM rowlock_pulse"); }

acquire_status attempted(lock_manager& m, std::string const& name) {
  return m.make_mutex(name).try_acquire().status();
}

/// A statement of SQL without C++ that takes.
std::string take_by_sql(fixture const& f, std::string const& name, int ttl_s) {
  auto const seconds = std::to_string(ttl_s);
  return on_postgresql(f) ? "SELECT rowlock_try_acquire('" + name + "', interval '" + seconds + " s')"
                          : "CALL rowlock_try_acquire('" + name + "', " + seconds + "000, '', @t, @k)";
}

}  // namespace

FREEZE_CASE("freeze: nothing is granted, holders go on, and thaw grants at once") {
  Database f;
  std::string said;
  int told = 0;
  auto options = f.options;
  options.on_event = [&](event const& e) {
    if (e.kind != event_kind::quarantined) return;
    said = e.message;
    ++told;
  };
  auto const m = f.manager(options);
  mutex_options rows;
  rows.strategy = strategy::row_lock;
  mutex_options inserts;
  inserts.strategy = strategy::unique_insert;
  auto held = m->make_mutex("x").try_acquire();
  auto row = m->make_mutex("r", rows).try_acquire();
  auto const base = newest_base(f);
  auto const pulses = number(f, "SELECT count(*) FROM rowlock_pulse");
  CHECK(freeze_now(f).in_force);
  CHECK(attempted(*m, "y") == acquire_status::quarantined);
  CHECK(said.find("frozen by an operator") != std::string::npos);
  CHECK(m->make_mutex("u", inserts).try_acquire().status() == acquire_status::quarantined);
  CHECK(m->make_mutex("q", rows).try_acquire().status() == acquire_status::quarantined);
  CHECK(m->make_shared_mutex("s").try_acquire().status() == acquire_status::quarantined);
  std::vector<std::string> const names{"a", "b"};
  CHECK(m->try_acquire_all(names).status() == acquire_status::quarantined);
  CHECK(told == 1);
  CHECK(held->extend(30s));
  CHECK(row->valid());
  CHECK(row->release() == release_result::released);
  CHECK(held->release() == release_result::released);
  CHECK(attempted(*m, "x") == acquire_status::quarantined);
  CHECK(number(f, "SELECT count(*) FROM rowlock_pulse") == pulses);
  CHECK(look_at_quarantine(f.source, freeze_tables(f))->frozen > 300 * 24h);
  auto y = m->make_mutex("y");
  int const looks = f.probe->executed("pulse_look");
  std::jthread const later([&] {
    CHECK(eventually([&] { return f.probe->executed("pulse_look") > looks; }));  // the call waits
    CHECK(thaw_now(f).left == 0ms);
  });
  CHECK(y.try_acquire_for(60s));
  CHECK(m->make_mutex("r", rows).try_acquire());
  CHECK(newest_base(f) == base);
  auto again = freeze_tables<freeze_options>(f);
  again.duration = 600s;
  CHECK(freeze(f.source, again).in_force);
  CHECK(attempted(*m, "z") == acquire_status::quarantined);
  CHECK(told == 2);
}

FREEZE_CASE("freeze: it is over by itself") {
  Database f;
  lock_manager m(f.source, f.options);
  auto o = freeze_tables<freeze_options>(f);
  o.duration = 10s;
  auto const base = newest_base(f);
  REQUIRE(freeze(f.source, o).in_force);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  CHECK(m.make_mutex("x").try_acquire_for(60s));
  CHECK(newest_base(f) == base);
}

FREEZE_CASE("freeze: it replaces the one before") {
  Database f;
  lock_manager m(f.source, f.options);
  REQUIRE(freeze_now(f).in_force);
  auto o = freeze_tables<freeze_options>(f);
  o.duration = 600s;
  REQUIRE(freeze(f.source, o).in_force);
  auto const state = look_at_quarantine(f.source, freeze_tables(f));
  CHECK(state->frozen <= 600s);
  CHECK(state->left <= 600s);
  CHECK(thaw_now(f).left == 0ms);
  CHECK(thaw_now(f).left == 0ms);
  CHECK(attempted(m, "x") == acquire_status::acquired);
}

FREEZE_CASE("freeze: a take that waits for its row can still be granted, and is waited for") {
  Database f;
  stranger one(f);
  REQUIRE(one.take("x", 1s));
  REQUIRE(one.release("x"));
  wait_view view(f, one.session());
  open_transaction holder(f);
  holder.run("UPDATE rowlock_locks SET note = 'n' WHERE name = 'x'");
  std::atomic<bool> ended = false;
  std::atomic<int> thread = 0;
  bool granted = false;
  std::jthread taker([&] {
    thread = ::gettid();
    granted = one.take("x", 1s);
    ended = true;
  });
  int asked = 0;
  auto o = freeze_tables<freeze_options>(f);
  o.on_wait = [&](std::vector<session_in_the_way> const& sessions) {
    CHECK_FALSE(sessions.empty());
    if (++asked == 1) holder.commit();
  };
  REQUIRE(view.shows_it(thread));  // so that the take has read its pulse
  CHECK(freeze_now(f, 0ms).in_the_way.size() == 2);
  CHECK_FALSE(ended);
  CHECK(freeze(f.source, o).in_force);
  CHECK(asked >= 1);
  taker.join();
  if (on_postgresql(f)) CHECK(granted);  // elsewhere it reads the pulse behind the wait
}

FREEZE_CASE("freeze: not in force by what the server told before") {
  Database f;
  f.make_functions();
  auto const observer = f.connect();
  backend::statement const look{
      "look", on_postgresql(f) ? "SELECT 1" : "SELECT count(*) FROM information_schema.innodb_trx"};
  // An operator's monitor: innodb_trx shows nothing new meanwhile.
  std::atomic<int> looks = 0;
  std::jthread monitor([&](std::stop_token const& stop) {
    for (; !stop.stop_requested(); ++looks) {
      observer->execute(look, {}, boot_clock::now() + 30s);
      std::this_thread::sleep_for(5ms);
    }
  });
  REQUIRE(eventually([&] { return looks >= 2; }));
  open_transaction granted(f);
  if (on_postgresql(f)) granted.run("SET search_path = " + f.options.schema);
  granted.run(take_by_sql(f, "x", 60));
  auto o = freeze_tables<freeze_options>(f);
  o.timeout = 1s;
  try {
    auto const result = freeze(f.source, o);
    CHECK_FALSE(result.in_force);
    CHECK(result.in_the_way.size() == 1);
  } catch (error const& e) {
    CHECK(e.reason() == errc::failed);
    CHECK(std::string(e.what()).find("too often") != std::string::npos);
  }
  monitor = {};
  o.timeout = 60s;
  o.on_wait = [&](std::vector<session_in_the_way> const&) { granted.commit(); };
  CHECK(freeze(f.source, o).in_force);
}

FREEZE_CASE("freeze: what a transaction from before adds to the pulses is frozen, too") {
  Database f;
  f.make_functions();
  f.sql(on_postgresql(f) ? "DELETE FROM rowlock_reach" : "DO 0");
  set_pulses(f, "reach = 1000, until = " + now(f) +
                    (on_postgresql(f) ? " + interval '1 hour'" : " + INTERVAL 1 HOUR"));
  auto const session = f.connect();
  auto const run = [&](std::string const& text) {
    session->script(f.tables().render(text), boot_clock::now() + 30s);
  };
  run(on_postgresql(f) ? "SET search_path = " + f.options.schema : "DO 0");
  // On PostgreSQL it has added the pulse, elsewhere it has a snapshot from before.
  run(on_postgresql(f) ? "BEGIN" : "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
  run(on_postgresql(f) ? take_by_sql(f, "long", 60) : "START TRANSACTION WITH CONSISTENT SNAPSHOT");
  auto o = freeze_tables<freeze_options>(f);
  int asked = 0;
  o.on_wait = [&](std::vector<session_in_the_way> const&) {
    if (++asked != 1) return;
    if (!on_postgresql(f)) run(take_by_sql(f, "long", 60));
    run("COMMIT");
  };
  CHECK(freeze(f.source, o).in_force);
  CHECK(asked >= 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_pulse WHERE safe_from <= " + now(f)) == 0);
  CHECK(number(f, "SELECT count(*) FROM rowlock_pulse WHERE reach = 60000") == 1);
  lock_manager m(f.source, f.options);
  CHECK(attempted(m, "y") == acquire_status::quarantined);
}

FREEZE_CASE("freeze: time is up: it stays, is not in force, and says who is in the way") {
  Database f;
  f.make_functions();
  lock_manager m(f.source, f.options);
  open_transaction open(f);
  if (on_postgresql(f)) open.run("SET LOCAL application_name = 'the program'");
  open.run("INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('x', 'lease', 1, " +
           now(f) + ")");
  auto const done = freeze_now(f, 0ms);
  CHECK_FALSE(done.in_force);
  REQUIRE(done.in_the_way.size() == 1);
  CHECK(done.in_the_way[0].session > 0);
  if (on_postgresql(f)) CHECK(done.in_the_way[0].application == "the program");
  CHECK(attempted(m, "y") == acquire_status::quarantined);
  open.commit();
  CHECK(freeze_now(f).in_force);
}

FREEZE_CASE("freeze: a crash meanwhile begins a quarantine after it") {
  Database f;
  lock_manager m(f.source, f.options);
  auto const held = m.make_mutex("held").try_acquire();  // so that a quarantine has a length
  auto const base = newest_base(f);
  bool thawed = false;
  SUBCASE("that is thawed") { thawed = true; }
  SUBCASE("that is over by itself") {}
  REQUIRE(freeze_now(f).in_force);
  forget_pulses(f);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  CHECK(newest_base(f) <= base);
  if (thawed)
    CHECK(thaw_now(f).left > 20s);
  else
    f.sql("UPDATE rowlock_quarantine SET frozen_until = " + now(f));
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  CHECK(newest_base(f) > base);
  auto const state = look_at_quarantine(f.source, freeze_tables(f));
  CHECK(state->frozen == 0ms);
  REQUIRE(state->left);
  CHECK(*state->left > 20s);
  CHECK(*state->left <= 301s);
}

FREEZE_CASE("freeze: a session that has looked before it begins no incarnation in it") {
  Database f;
  auto const m = f.manager();
  forget_pulses(f);
  auto const base = newest_base(f);
  bool frozen = false;
  f.probe->before = [&](std::string const& s) {
    if (s == "pulse_begin" && !std::exchange(frozen, true)) CHECK(freeze_now(f).in_force);
  };
  CHECK(attempted(*m, "x") == acquire_status::quarantined);
  CHECK(frozen);
  CHECK(newest_base(f) <= base);
}

FREEZE_CASE("freeze: thaw ends no quarantine early") {
  Database f;
  lock_manager m(f.source, f.options);
  auto const held = m.make_mutex("held").try_acquire();  // so that a quarantine has a length
  forget_pulses(f);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  auto const before = look_at_quarantine(f.source, freeze_tables(f))->left;
  REQUIRE(freeze_now(f).in_force);
  auto const left = thaw_now(f).left;
  REQUIRE(left);
  CHECK(*left > *before - 30s);
  CHECK(*left > 20s);
  CHECK(*left <= 301s);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
}

FREEZE_CASE("freeze: a database that was restored begins another incarnation after it") {
  Database f;
  lock_manager m(f.source, f.options);
  auto const held = m.make_mutex("held").try_acquire();  // so that a quarantine has a length
  auto lock = m.make_mutex("x").try_acquire();
  auto const before = lock->token().value;
  REQUIRE(lock->release() == release_result::released);
  auto o = freeze_tables<freeze_options>(f);
  o.restored = true;
  REQUIRE(freeze(f.source, o).in_force);
  CHECK(thaw_now(f).left > 0ms);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  wait_it_out(f);
  auto const after = m.make_mutex("x").try_acquire();
  REQUIRE(after);
  CHECK(after->token().value > before + 3'600'000'000);
}

FREEZE_CASE("freeze: the quarantine is off: an incarnation grants at once, and its tokens are above") {
  Database f;
  lock_manager m(f.source, f.options);
  auto lock = m.make_mutex("x").try_acquire();
  auto const before = lock->token().value;
  REQUIRE(lock->release() == release_result::released);
  CHECK_FALSE(enable_quarantine(f.source, false, freeze_tables(f)).enabled);
  forget_pulses(f);
  auto again = m.make_mutex("x").try_acquire();
  REQUIRE(again);
  CHECK(again->token().value > before + 3'600'000'000);
  REQUIRE(again->release() == release_result::released);
  CHECK(enable_quarantine(f.source, true, freeze_tables(f)).left == 0ms);
  forget_pulses(f);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  // It ends one that runs, and no freeze.
  REQUIRE(freeze_now(f).in_force);
  CHECK(enable_quarantine(f.source, false, freeze_tables(f)).frozen > 0ms);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  CHECK(thaw_now(f).left == 0ms);
  CHECK(attempted(m, "x") == acquire_status::acquired);
}

TEST_CASE_TEMPLATE("freeze: an account that sees no other sessions is told so" *
                       doctest::description("alone"),
                   Database, mariadb_fixture, mysql_fixture) {
  Database f;
  auto const user = "frozen_" + unique_identifier().substr(0, 20);
  f.sql("CREATE USER " + user + " IDENTIFIED BY 'secret'");
  f.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO " + user);
  auto const her =
      mysql::source(std::regex_replace(f.url(), std::regex("//[^@]*@"), "//" + user + ":secret@"));
  try {
    freeze(her, freeze_tables<freeze_options>(f));
    FAIL("in force");
  } catch (error const& e) {
    CHECK(e.reason() == errc::access_denied);
    CHECK(std::string(e.what()).find("is frozen, but") != std::string::npos);
  }
  lock_manager m(f.source, f.options);
  CHECK(attempted(m, "x") == acquire_status::quarantined);
  CHECK(thaw(her, freeze_tables(f)).left == 0ms);
  f.sql("DROP USER " + user);
}

TEST_CASE("freeze: a file has none <sqlite>") {
  sqlite_fixture f;
  CHECK_FALSE(look_at_quarantine(f.source, freeze_tables(f)));
  for (auto const& what :
       std::vector<std::function<void()>>{[&] { freeze(f.source, freeze_tables<freeze_options>(f)); },
                                          [&] { thaw(f.source, freeze_tables(f)); },
                                          [&] { enable_quarantine(f.source, false, freeze_tables(f)); }})
    try {
      what();
      FAIL("done");
    } catch (error const& e) {
      CHECK(e.reason() == errc::unsupported);
    }
}
