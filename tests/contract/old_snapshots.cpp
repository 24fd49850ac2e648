// PostgreSQL: a name that is used often has two rows. One keeps the name, one is the lock and moves on from
// generation to generation, so that an old snapshot does not make it slow. [C92]

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/old_snapshots.hpp"
#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

void use(stranger& by, int times, std::string const& name = "x") {
  for (int i = 0; i < times; ++i) {
    REQUIRE(by.take(name));
    REQUIRE(by.release(name));
  }
}

/// "x" is free, and has both rows.
struct often_used {
  explicit often_used(fixture& fixture) : f(fixture), one(f), other(f, "other") {
    use(one, 129);
    REQUIRE(rows(f) == 2);
    REQUIRE(newest() == 1);
  }
  std::int64_t newest() const { return number(f, "SELECT max(generation) FROM rowlock_locks"); }
  fixture& f;
  stranger one;
  stranger other;
};

void long_ago(fixture& f) {
  f.sql("UPDATE rowlock_locks SET acquired_at = " + in_ms(f, -48 * hour) + " WHERE generation = 0");
}

}  // namespace

OFTEN_CASE("C92: the 128th release leaves a row that keeps the name, and one that is the lock") {
  stranger one(f);
  stranger other(f, "other");
  use(one, 127);
  CHECK(rows(f) == 1);
  auto const before = one.token("x");
  REQUIRE(one.take("x"));
  CHECK(rows(f) == 1);
  REQUIRE(one.release("x"));
  CHECK(rows(f, "generation = 0 AND term = 'name'") == 1);
  CHECK(rows(f) == 1);
  CHECK(one.sees_free("x"));
  auto const idle = f.manager()->list({.idle = true});
  REQUIRE(idle.size() == 1);
  CHECK_FALSE(idle[0].held);
  CHECK(f.manager()->list().empty());
  CHECK(one.token("x") > before);
  auto o = f.options;
  for (auto const how : {strategy::once, strategy::unique_insert, strategy::row_lock}) {
    o.strategy = how;
    CHECK(reason([&] { (void)f.manager(o)->make_mutex("x").try_acquire(); }) == errc::strategy_mismatch);
  }
  CHECK_FALSE(inserts(f));
  // It is one lock.
  REQUIRE(other.take("x"));
  CHECK(rows(f) == 2);
  auto const token = other.token("x");
  CHECK(token > before + 1);
  CHECK_FALSE(one.take("x"));
  CHECK_FALSE(inserts(f));
  CHECK(other.renew("x"));
  CHECK(other.set_note("x", "often"));
  CHECK(one.read("x")->holder.note == "often");
  CHECK(rows(f, "note = 'often'") == 1);
  auto const all = f.manager()->list();
  REQUIRE(all.size() == 1);
  CHECK(all[0].holder.note == "often");
  // As everybody else's, also for who takes what has expired.
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000) + " WHERE generation > 0");
  CHECK(one.take("x"));
  CHECK_FALSE(other.renew("x"));
  CHECK_FALSE(other.release("x"));
  CHECK(one.has_still("x"));
  CHECK(one.token("x") > token);
}

OFTEN_CASE("C92: each 128th take begins a generation, and two rows stay") {
  often_used x(f);
  use(x.one, 126);
  CHECK(x.newest() == 1);
  use(x.other, 1);
  CHECK(x.newest() == 2);
  use(x.one, 128);
  CHECK(x.newest() == 3);
  CHECK(rows(f) == 2);
  CHECK(rows(f, "generation = 0 AND term = 'name'") == 1);
}

OFTEN_CASE("C92: who waits while the row moves on takes the one that it has moved to") {
  stranger one(f);
  stranger other(f, "other");
  use(one, 127);
  REQUIRE(one.take("x"));
  auto const term = one.read("x")->term.value;
  f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000));  // what is held is not waited for
  open_transaction t(f);
  t.run(script_of(f, "lock_release", {"'x'", "'" + term + "'"}));
  bool had = false;
  while_it_waits(
      f, other.session(), [&] { had = other.take("x"); }, [&] { t.commit(); });
  CHECK(had);
  CHECK(rows(f) == 2);
  CHECK(rows(f, "generation = 1 AND term IS NOT NULL") == 1);
  CHECK_FALSE(one.has_still("x"));
}

OFTEN_CASE("C92: who waits for a take that begins a generation is refused, as by any other") {
  often_used x(f);
  auto const before = x.one.read("x");
  f.sql("UPDATE rowlock_locks SET takes = 127 WHERE generation = 1");
  open_transaction t(f);
  t.run("UPDATE rowlock_locks SET term = 'third', generation = 2, takes = 128, expires_at = " +
        in_ms(f, 60'000) + " WHERE name = 'x' AND generation = 1");
  bool had = true;
  while_it_waits(
      f, x.other.session(), [&] { had = x.other.take("x"); }, [&] { t.commit(); });
  CHECK_FALSE(had);
  CHECK(x.one.read("x")->term.value == "third");
  // And the holder of what has expired, who would renew it.
  f.sql("UPDATE rowlock_locks SET term = 'mine', takes = 127 WHERE generation = 2");
  open_transaction u(f);
  u.run(
      "UPDATE rowlock_locks SET term = 'fourth', generation = 3, takes = 128 WHERE name = 'x' AND generation "
      "= 2");
  CHECK_FALSE(x.other.renew("x", {"mine"}));
  u.commit();
  CHECK_FALSE(x.other.renew("x", {"mine"}));
  CHECK(x.newest() == 3);
}

OFTEN_CASE("C92: a take that undoes its generation by a ROLLBACK leaves the lock where it was") {
  often_used x(f);
  f.sql("UPDATE rowlock_locks SET takes = 127 WHERE generation = 1");
  {
    open_transaction t(f);
    t.run(
        "UPDATE rowlock_locks SET term = 'third', generation = 2, takes = 128 WHERE name = 'x' AND "
        "generation = 1");
  }
  CHECK(x.one.take("x"));
  CHECK(x.newest() == 2);
}

OFTEN_CASE("C92: a hand that deletes the lock's row, or the other, leaves one lock, whose tokens rise") {
  often_used x(f);
  REQUIRE(x.one.take("x"));
  auto const before = x.one.token("x");
  f.sql("DELETE FROM rowlock_locks WHERE generation > 0");
  CHECK(x.one.sees_free("x"));
  CHECK(x.other.take("x"));
  CHECK_FALSE(x.one.take("x"));
  CHECK(x.one.token("x") > before);
  CHECK_FALSE(x.one.renew("x"));
  CHECK_FALSE(inserts(f));
  CHECK(rows(f) == 2);
  REQUIRE(x.other.release("x"));
  f.sql("DELETE FROM rowlock_locks WHERE generation = 0");
  CHECK(x.one.take("x"));
  CHECK_FALSE(x.other.take("x"));
  CHECK(x.one.renew("x"));
}

OFTEN_CASE("C92: a free row below the lock's, as an INSERT that came late leaves it, is no second lock") {
  often_used x(f);
  f.sql("UPDATE rowlock_locks SET term = NULL, expires_at = " + in_ms(f, -48 * hour) +
        " WHERE generation = 0");
  REQUIRE(x.one.take("x"));
  CHECK_FALSE(x.other.take("x"));
  reap_once(f);
  CHECK(rows(f, "name = 'x'") == 2);
  CHECK_FALSE(inserts(f));
  REQUIRE(x.one.release("x"));
  expire(f, 48 * hour, "name = 'x'");
  long_ago(f);
  reap_once(f);
  reap_once(f);
  CHECK(rows(f, "name = 'x'") == 0);
}

OFTEN_CASE("C92: the reaper deletes both rows") {
  often_used x(f);
  REQUIRE(x.one.take("x"));
  auto const before = x.one.token("x");
  expire(f, 48 * hour, "name = 'x' AND generation > 0");
  long_ago(f);
  {
    // Who renews just now keeps both.
    once_before(f, before_delete, [&] { REQUIRE(x.one.renew("x")); });
    reap_once(f);
    f.probe->before = nullptr;
    CHECK(rows(f, "name = 'x'") == 2);
  }
  expire(f, 48 * hour, "name = 'x' AND generation > 0");
  {
    // Who has the other locked just then keeps it for a later run.
    open_transaction t(f);
    t.run("SELECT 1 FROM rowlock_locks WHERE name = 'x' AND generation = 0 FOR UPDATE");
    CHECK(reap_once(f).deleted.lease == 1);
  }
  CHECK(rows(f, "name = 'x' AND term = 'name'") == 1);
  CHECK_FALSE(inserts(f));
  CHECK(x.other.take("x"));
  CHECK(x.other.token("x") > before);
  REQUIRE(x.other.release("x"));
  expire(f, 48 * hour, "name = 'x' AND generation > 0");
  CHECK(reap_once(f).deleted.lease == 1);
  CHECK(rows(f, "name = 'x'") == 0);
  CHECK(inserts(f));
  f.sql("DELETE FROM rowlock_locks");
  CHECK(x.other.take("x"));
  CHECK(x.other.token("x") > before);
}

OFTEN_CASE("C92: the reaper leaves a row that keeps the name to a take that puts the lock's beside it") {
  stranger one(f);
  use(one, 128);
  long_ago(f);
  // The take is first, and has not committed yet.
  open_transaction t(f);
  t.run(script_of(f, "lock_insert_free", {"'x'", "'lease'"}));
  CHECK(reap_once(f).deleted.lease == 0);
  t.run("ROLLBACK");
  CHECK(rows(f, "name = 'x'") == 1);
  // It comes and is done between the reaper's look and its DELETE.
  once_before(f, before_delete, [&] { REQUIRE(one.take("x")); });
  CHECK(reap_once(f).deleted.lease == 0);
  f.probe->before = nullptr;
  CHECK(rows(f, "name = 'x'") == 2);
  CHECK_FALSE(inserts(f));
  // The reaper is first.
  f.sql("DELETE FROM rowlock_locks WHERE generation > 0");
  long_ago(f);
  CHECK(reap_once(f, {.dry_run = true}).deleted.lease == 1);
  CHECK(reap_once(f).deleted.lease == 1);
  CHECK(rows(f, "name = 'x'") == 0);
  CHECK(one.take("x"));
  CHECK(rows(f, "name = 'x' AND generation = 0") == 1);
}

OFTEN_CASE("C92: the reaper's DELETE that meets a take's row decides by what the take has written to it") {
  stranger one(f);
  stranger reaper(f, "reaper");
  use(one, 128);
  long_ago(f);
  f.sql("UPDATE rowlock_meta SET token_floor = 5000000000000000");
  auto sql = script_of(f, "reap_locks_delete", {"''", "'z'", "10", "0"});
  // So that it has its snapshot, and waits before it locks rows.
  auto const key = std::to_string(::getpid());
  auto const from = sql.find("FROM rowlock_locks AS l");
  REQUIRE(from != sql.npos);
  sql.insert(from + 5, "pause CROSS JOIN ");
  sql.replace(0, 5, "WITH pause AS MATERIALIZED (SELECT pg_advisory_lock(" + key + ")), ");
  auto const deletes = [&] { reaper.session().script(f.tables().render(sql), boot_clock::now() + 30s); };
  {
    open_transaction held(f);
    held.run("SELECT pg_advisory_xact_lock(" + key + ")");
    while_it_waits(f, reaper.session(), deletes, [&] {
      REQUIRE(one.take("x"));
      held.commit();
    });
  }
  CHECK(rows(f, "name = 'x'") == 2);
  CHECK_FALSE(inserts(f));
  REQUIRE(one.release("x"));
  f.sql("DELETE FROM rowlock_locks WHERE generation > 0");
  long_ago(f);
  deletes();  // without such a take
  CHECK(rows(f, "name = 'x'") == 0);
}

OFTEN_CASE(
    "C92: of two that put the lock's row beside the one that keeps the name, the second finds the first "
    "one's") {
  stranger one(f);
  use(one, 128);
  statements s(f);
  open_transaction t(f);
  t.run(script_of(f, "lock_insert_free", {"'x'", "'lease'"}));
  // So that the second one's row would come beside it, and not meet it.
  t.run("UPDATE rowlock_locks SET generation = 2 WHERE generation = 1");
  while_it_waits(
      f, *s.session,
      [&] {
        s.run("lock_insert_free", {text("x"), text("lease")});
      },
      [&] { t.commit(); });
  CHECK(rows(f) == 2);
  CHECK(rows(f, "generation = 1") == 0);
  // Of another strategy, and where the lock's row is there: none.
  s.run("lock_insert_free", {text("x"), text("once")});
  s.run("lock_insert_free", {text("x"), text("lease")});
  CHECK(rows(f) == 2);
  f.sql("DELETE FROM rowlock_locks WHERE generation > 0");
  s.run("lock_insert_free", {text("x"), text("once")});
  CHECK(rows(f) == 1);
  // The token is above the floor, which the reaper may have raised for the row that is gone.
  f.sql("UPDATE rowlock_meta SET token_floor = 5000000000000000");
  REQUIRE(one.take("x"));
  CHECK(one.token("x") == 5'000'000'000'000'001);
}

OFTEN_CASE("C92: several at once, of which some are used often") {
  auto const m = f.manager();
  stranger other(f, "other");
  for (int i = 0; i < 130; ++i) {
    auto all = m->try_acquire_all({"x", "y"});
    REQUIRE(all);
  }
  CHECK(rows(f, "name = 'x'") == 2);
  CHECK(rows(f, "name = 'y'") == 2);
  auto const held = m->try_acquire_all({"x", "y", "z"});
  REQUIRE(held);
  CHECK_FALSE(other.take("x"));
  CHECK_FALSE(other.take("y"));
  CHECK_FALSE(m->try_acquire_all({"y"}, {.owner = each_acquire{}}));
}

OFTEN_CASE("C92: beside an old snapshot each statement on one name meets a bounded number of dead rows") {
  stranger one(f);
  use(one, 300);
  f.sql("ANALYZE rowlock_locks");
  statements s(f);
  using texts = std::vector<std::string>;
  texts const taking{"'x'",     "'lease'", "'t'", "'h'", "1",    "'p'",  "1", "30000",
                     "'clock'", "NULL",    "''",  "1",   "NULL", "NULL", "0"};
  texts const mine{"'x'", "'t'"};
  std::string const list = R"('[{"name": "x", "term": "t"}]')";
  std::vector<std::pair<char const*, texts>> const of_free{
      {"lock_take", taking},
      {"lock_next_take", taking},
      {"lock_read", {"'x'"}},
      {"all_read", {list}},
      {"all_take", {list, "'lease'", "'h'", "1", "'p'", "1", "30000", "'clock'", "NULL", "''", "1", "1"}},
      {"each_take", {list, "'lease'", "'h'", "1", "'p'", "1", "30000", "'clock'", "NULL", "''", "1"}}};
  std::vector<std::pair<char const*, texts>> const of_held{{"lock_extend", {"'x'", "'t'", "1000"}},
                                                           {"lock_idle", mine},
                                                           {"lock_renew", {list}},
                                                           {"lock_check", {list}},
                                                           {"all_release", {list}},
                                                           {"lock_release", mine},
                                                           {"guard_require", mine},
                                                           {"at_once_guard", mine},
                                                           {"lock_set_note", {"'x'", "'t'", "'n'"}}};
  // In a transaction that is rolled back.
  auto const pages = [&] {
    std::map<std::string, std::int64_t> all;
    auto const look = [&](bool held, char const* name, texts const& with) {
      s.session->script("BEGIN", statements::soon());
      if (held) s.session->script(f.tables().render(script_of(f, "lock_take", taking)), statements::soon());
      all[name] = pages_of(f, *s.session, name, with);
      s.session->script("ROLLBACK", statements::soon());
    };
    for (auto const& [name, with] : of_free) look(false, name, with);
    for (auto const& [name, with] : of_held) look(true, name, with);
    return all;
  };
  auto const at_first = pages();
  open_transaction old(f);
  old.run(
      "SET idle_in_transaction_session_timeout = 0; SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT "
      "count(*) FROM rowlock_locks");
  use(one, 3000);
  for (auto const& page : pages()) {
    CAPTURE(page.first);
    CHECK(page.second <= at_first.at(page.first) + 60);
  }
  old.run("SELECT 1");  // it was there all the time
}
