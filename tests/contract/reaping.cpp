// The reaper: what goes, what stays, and what is told of it.
#include <unistd.h>

#include <algorithm>
#include <rowlock/postgresql.hpp>
#include <thread>

#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("reaper: a dead holder's row goes, of unique_insert as soon as its time is over") {
  stranger dead(f, "dead");
  REQUIRE(dead.take("x"));
  expire(f, 1);
  auto const first = reap_once(f);
  CHECK(first.deleted.unique_insert == (f.options.strategy == strategy::unique_insert ? 1 : 0));
  CHECK(first.deleted.lease == 0);
  if (pair.as_lease()) {
    expire(f, 23 * hour);
    CHECK(reap_once(f).deleted.all() == 0);
    expire(f, 25 * hour);
    CHECK(reap_once(f).deleted.lease == 1);
  }
  CHECK(rows(f) == 0);
}

LEASE_CASE("reaper: a free name goes when it was not used for the idle time, and not before") {
  auto const m = f.manager();
  take_once(*m);
  CHECK(reap_once(f).deleted.all() == 0);
  expire(f, 3 * hour);
  CHECK(reap_once(f).deleted.all() == 0);
  CHECK(reap_once(f, {.idle = 4h}).deleted.all() == 0);
  auto const r = reap_once(f, {.idle = 2h});
  CHECK(r.deleted.lease == 1);
  CHECK(r.deleted.all() == 1);
  CHECK(r.end == reap_end::finished);
  CHECK(r.token_floor == floor_of(f));
  CHECK(rows(f) == 0);
}

LEASE_CASE(
    "reaper: a name that was given back with at_least is idle from then on, however long it was held") {
  auto const m = f.manager();
  auto held = m->make_mutex("x", {.ttl = 24h, .at_least = 1s}).acquire();
  f.sql("UPDATE rowlock_locks SET acquired_at = " + in_ms(f, -30 * hour));
  CHECK(held->release() == release_result::released);
  CHECK(reap_once(f).deleted.all() == 0);
  expire(f, 25 * hour);
  CHECK(reap_once(f).deleted.lease == 1);
}

LEASE_CASE("reaper: what is young stays beside what is old, locks and tokens") {
  auto const m = f.manager();
  take_once(*m, "young");
  leave_dead(f, "old");
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('old', 1), ('young', " +
        std::to_string(stranger(f).token("young")) + ")");
  auto const r = reap_once(f);
  CHECK(r.deleted.lease == 1);
  CHECK(r.deleted.tokens == 1);
  CHECK(r.skipped == 0);
  CHECK(rows(f, "name = 'young'") == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens WHERE name = 'young'") == 1);
}

CONTRACT_CASE("reaper: a live lock is never freed, whatever the idle time") {
  auto const m = f.manager();
  auto lock = m->make_mutex("x", {.ttl = 30s}).acquire();
  auto const unrenewed = m->make_mutex("y", {.ttl = 60s, .renew = false}).acquire();
  for (auto const idle : {0ms, 1ms, 24'000ms})
    CHECK(reap_once(f, {.idle = idle}).deleted.all() <= 2);  // their tokens
  CHECK(rows(f, "term IS NOT NULL") == 2);
  stranger other(f);
  CHECK(other.renew("x", lock->term()));
  CHECK_FALSE(other.take("x"));
  CHECK_FALSE(other.take("y"));
  CHECK(lock->release() == release_result::released);
}

CONTRACT_CASE("reaper: a negative idle time is refused, and would free no live lock all the same") {
  stranger holder(f);
  REQUIRE(holder.take("x"));
  CHECK_THROWS_AS(make_reaper(f, {.idle = -1ms}), error);
  CHECK(reap_unbidden(f, {.idle = -120s}).deleted.lease == 0);
  CHECK(reap_unbidden(f, {.idle = -120s}).deleted.unique_insert == 0);
  CHECK(holder.renew("x"));
}

CONTRACT_CASE(
    "reaper: P3, B5: tokens of a name whose rows were reaped go on rising, although the clock was ahead "
    "once") {
  auto const m = f.manager();
  leave_dead(f);
  shift_tokens(f, 2 * token_hour);
  stranger other(f);
  auto const last = other.token("x");
  f.sql("DELETE FROM rowlock_tokens");  // so that only the floor is left to know it
  CHECK(reap_once(f).deleted.all() == 1);
  CHECK(floor_of(f) == last);
  CHECK(take_once(*m) == last + 1);
}

CONTRACT_CASE(
    "reaper: B5: the floor is raised before the row goes: a reaper that dies in between has harmed nothing") {
  leave_dead(f);
  shift_tokens(f, 2 * token_hour);
  stranger other(f);
  auto const last = other.token("x");
  std::int64_t floor_then = 0;
  once_before(f, before_delete, [&] {
    floor_then = floor_of(f);
    throw error(errc::failed, "killed by the test");
  });
  CHECK_THROWS_AS(reap_once(f), error);
  CHECK(floor_then == last);  // as another session sees it: committed
  CHECK(rows(f) == 1);
  f.probe->before = nullptr;
  CHECK(take_once(*f.manager()) == last + 1);
}

INSERT_CASE(
    "reaper: tokens that were not drawn for the idle time go, and the name's next one is above them") {
  auto const m = f.manager();
  auto const first = take_once(*m);
  CHECK(reap_once(f).deleted.tokens == 0);
  shift_tokens(f, -25 * token_hour);
  auto const r = reap_once(f);
  CHECK(r.deleted.tokens == 1);
  CHECK(number(f, "SELECT count(*) FROM rowlock_tokens") == 0);
  CHECK(floor_of(f) == first - 25 * token_hour);
  f.sql("UPDATE rowlock_meta SET token_floor = 4000000000000000");
  CHECK(take_once(*m) == 4000000000000001);
}

CONTRACT_CASE("reaper: anchors that were not used for the idle time go, others stay") {
  make_anchor(f, "old", 25 * hour);
  make_anchor(f, "young", 23 * hour);
  auto const r = reap_once(f);
  CHECK(r.deleted.row_lock == 1);
  CHECK(r.deleted.all() == 1);
  CHECK(rows(f, "name = 'young'") == 1);
}

CONTRACT_CASE("reaper: rows of a strategy that this version does not know, or that make no sense, are left") {
  make_anchor(f, "later", 48 * hour);
  make_anchor(f, "odd", 48 * hour);
  f.sql("UPDATE rowlock_locks SET strategy = 'from the future' WHERE name = 'later'");
  f.sql("UPDATE rowlock_locks SET term = 'an anchor has none' WHERE name = 'odd'");
  auto const r = reap_once(f, {.idle = 0ms});
  CHECK(r.deleted.all() == 0);
  CHECK(r.skipped == 0);
  CHECK(rows(f) == 2);
}

CONTRACT_CASE(
    "reaper: a token far ahead of the clock does not lift the floor: the row is left, and counted") {
  leave_dead(f, "x");
  leave_dead(f, "y");
  leave_dead(f, "z");
  f.sql("UPDATE rowlock_locks SET token = 9000000000000000000 WHERE name = 'x'");
  f.sql("UPDATE rowlock_locks SET token = token + " + std::to_string(25 * token_hour) + " WHERE name = 'y'");
  f.sql("UPDATE rowlock_locks SET token = token + " + std::to_string(23 * token_hour) + " WHERE name = 'z'");
  stranger other(f);
  auto const highest = other.token("z");
  auto const r = reap_once(f);
  CHECK(r.left_ahead == 2);
  CHECK(r.skipped == 0);
  CHECK(r.deleted.lease + r.deleted.unique_insert == 1);
  CHECK(floor_of(f) == highest);
  CHECK(rows(f) == 2);
}

CONTRACT_CASE("reaper: many rows go page by page, each name is looked at once, and memory holds one page") {
  for (int i = 0; i < 25; ++i) make_anchor(f, "n" + std::to_string(i), i % 5 == 0 ? 0 : 48 * hour);
  make_anchor(f, "\xf0\x9f\x94\x92", 48 * hour);
  std::vector<std::int64_t> seen;
  auto const r = reap_once(
      f, {.batch = 10, .progress = [&](reap_result const& so_far) { seen.push_back(so_far.examined); }});
  CHECK(r.deleted.row_lock == 21);
  CHECK(r.examined == 27);  // and rowlock.reaper
  CHECK(r.batches == 3);
  CHECK(seen == std::vector<std::int64_t>{10, 20, 27});
  CHECK(rows(f) == 5);
}

CONTRACT_CASE("reaper: a stop ends the run after the batch at hand") {
  for (int i = 0; i < 25; ++i) make_anchor(f, "n" + std::to_string(i), 48 * hour);
  std::stop_source stop;
  auto r = make_reaper(f, {.batch = 10, .progress = [&](reap_result const&) { stop.request_stop(); }});
  auto const done = r.run(stop.get_token());
  CHECK(done.end == reap_end::stopped);
  CHECK(done.deleted.row_lock == 10);
  CHECK(rows(f) == 15);
  CHECK(r.last()->report.find("\"stopped\"") != std::string::npos);
  CHECK(r.run(stop.get_token()).end == reap_end::stopped);
  CHECK(rows(f) == 15);
}

CONTRACT_CASE("reaper: a dry run counts what a run deletes, and changes nothing") {
  leave_dead(f);
  make_anchor(f, "a", 48 * hour);
  shift_tokens(f, -48 * token_hour);
  auto const would = reap_once(f, {.dry_run = true});
  CHECK(would.dry_run);
  CHECK(f.probe->executed("reap_raise_floor") == 0);
  CHECK(f.probe->executed(before_delete) == 0);
  CHECK(f.probe->executed("lock_take") == 0);
  CHECK(rows(f) == 2);
  CHECK_FALSE(make_reaper(f).last());
  auto const did = reap_once(f);
  CHECK(did.deleted.all() == would.deleted.all());
  CHECK(did.deleted.tokens == would.deleted.tokens);
  CHECK(did.deleted.row_lock == 1);
  CHECK(rows(f) == 0);
}

CONTRACT_CASE("reaper: one run at a time: another one says who is at it, and does nothing") {
  leave_dead(f);
  auto const m = f.manager();
  auto const other =
      m->make_mutex("rowlock.reaper", {.strategy = strategy::lease, .note = "somebody"}).acquire();
  REQUIRE(other);
  std::optional<reap_result> r;
  std::jthread([&] { r = reap_once(f, {.wait = 0ms}); }).join();
  CHECK(r->end == reap_end::busy);
  REQUIRE(r->holder);
  CHECK(r->holder->note == "somebody");
  CHECK(r->examined == 0);
  CHECK(rows(f) == 1);
  CHECK_FALSE(make_reaper(f).last());
}

CONTRACT_CASE("reaper: the floor never falls") {
  leave_dead(f);
  f.sql("UPDATE rowlock_meta SET token_floor = 4000000000000000");
  CHECK(reap_once(f).deleted.lease + reap_once(f).deleted.unique_insert >= 0);
  CHECK(rows(f) == 0);
  CHECK(floor_of(f) == 4000000000000000);
}

CONTRACT_CASE(
    "reaper: P1: a deadlock, a locked row and lost connections are ridden out, a broken database is not") {
  leave_dead(f);
  std::vector<errc> troubles{errc::conflict, errc::row_locked, errc::unreachable};
  f.probe->before = [&](std::string const& s) {
    if (s != before_delete || troubles.empty()) return;
    auto const trouble = troubles.back();
    troubles.pop_back();
    throw error(trouble, "made by the test");
  };
  CHECK(reap_once(f).deleted.all() == 1);
  CHECK(troubles.empty());
  leave_dead(f);
  troubles.assign(100, errc::conflict);
  CHECK_THROWS_AS(reap_once(f), error);
  CHECK(troubles.size() >= 80);  // not for ever
  CHECK(rows(f) == 1);
}

CONTRACT_CASE("reaper: a delete whose reply is lost is not counted twice, and the run goes on") {
  leave_dead(f, "x");
  leave_dead(f, "y");
  std::atomic<bool> lose{true};
  f.probe->after = [&](std::string const& s) {
    if (s == before_delete && lose.exchange(false)) throw error(errc::in_doubt, "cut by the test");
  };
  auto const r = reap_once(f, {.batch = 1});
  CHECK(r.deleted.lease + r.deleted.unique_insert == 1);  // the other one went unheard
  CHECK(rows(f) == 0);
}

CONTRACT_CASE("reaper: what the last run did can be read") {
  auto r = make_reaper(f);
  CHECK_FALSE(r.last());
  make_anchor(f, "a", 48 * hour);
  auto const done = r.run();
  auto const last = r.last();
  REQUIRE(last);
  CHECK(last->report == to_json(done));
  CHECK(last->report.find("\"row_lock\":1") != std::string::npos);
  CHECK(last->pid == ::getpid());
  CHECK(last->started_at <= last->finished_at);
  CHECK(std::chrono::system_clock::now() - last->finished_at < 10min);
}

TEST_CASE("reaper: a dry run works where nothing may be written: on postgresql") {
  postgresql_fixture f;
  make_anchor(f, "a", 48 * hour);
  reaper_options o;
  o.schema = f.options.schema;
  o.dry_run = true;
  postgresql::source const read_only(postgresql_conninfo() +
                                     " options='-c default_transaction_read_only=on'");
  CHECK(reaper(read_only, o).run().deleted.row_lock == 1);
  o.dry_run = false;
  CHECK_THROWS_AS((void)reaper(read_only, o).run(), error);
}

// The one moment that no step reaches from outside: the DELETE has its snapshot, and has not locked the row
// yet. A policy makes it wait there.
TEST_CASE(
    "reaper: B24: a row that is renewed after the DELETE's snapshot and before it is locked stays: on "
    "postgresql") {
  postgresql_fixture f;
  stranger late(f);
  REQUIRE(late.take("x"));
  expire(f, 48 * hour);
  leave_dead(f, "y");
  auto const role = unique_identifier();
  auto const queue = std::to_string(static_cast<unsigned>(std::hash<std::string>()(role)));
  f.sql("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + f.options.schema + " TO " + role +
        "; GRANT ALL ON ALL TABLES IN SCHEMA " + f.options.schema + " TO " + role + "; CREATE FUNCTION " +
        f.options.schema +
        ".at_queue() RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$ BEGIN IF current_query() LIKE "
        "'%DELETE FROM%' THEN PERFORM pg_advisory_lock_shared(" +
        queue + "); PERFORM pg_advisory_unlock_shared(" + queue +
        "); END IF; RETURN true; END $$; ALTER TABLE rowlock_locks ENABLE ROW LEVEL SECURITY; CREATE POLICY "
        "queue ON "
        "rowlock_locks USING (" +
        f.options.schema + ".at_queue()) WITH CHECK (true)");
  open_transaction closed(f);
  closed.run("SELECT pg_advisory_xact_lock(" + queue + ")");
  std::optional<reap_result> r;
  std::jthread reaping([&] {
    reaper_options o;
    o.schema = f.options.schema;
    try {
      r = reaper(postgresql::source(postgresql_conninfo() + " user=" + role), o).run();
    } catch (error const& e) {
      MESSAGE(std::string(e.what()));
    }
  });
  REQUIRE(eventually([&] {
    return number(f, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory' AND usename = '" +
                         role + "'") > 0;
  }));
  CHECK(late.renew("x"));
  closed.run("COMMIT");
  reaping.join();
  REQUIRE(r);
  CHECK(r->skipped == 1);
  CHECK(r->deleted.lease == 1);
  CHECK(late.renew("x"));
  f.sql(
      "ALTER TABLE rowlock_locks DISABLE ROW LEVEL SECURITY; DROP POLICY queue ON rowlock_locks; DROP OWNED "
      "BY " +
      role + "; DROP ROLE " + role);
}
