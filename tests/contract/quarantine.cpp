// Without a pulse nothing is granted, and the first session begins one that waits for the longest lease. Rows
// of rowlock_pulse that go stand for a crash or a promotion: on MySQL and MariaDB they are another server's
// then. lib/doc/quarantine.md

#include <fmt/format.h>

#include <atomic>
#include <string>
#include <thread>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "contract/pulses.hpp"
#include "contract/reaping.hpp"
#include "strategy/quarantine.hpp"
#include "support/incarnation.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

#define PULSE_CASE(text) PAIRS_CASE(text, direct_leases_on_servers)

std::string interval(fixture const& f, int seconds) {
  return on_postgresql(f) ? fmt::format("interval '{} seconds'", seconds)
                          : fmt::format("INTERVAL {} SECOND", seconds);
}
std::string in(fixture const& f, int seconds) { return now(f) + " + " + interval(f, seconds); }

/// As migrated: so the first lease has to raise the reach.
void grant_nothing(fixture& f) { set_pulses(f, "reach = 0, until = " + now(f)); }
/// All that was granted so far was granted earlier.
void make_older(fixture& f, int seconds) {
  auto const less = fmt::format(" - {}", interval(f, seconds));
  set_pulses(f, "until = least(until, " + now(f) + ")" + less);
  if (on_postgresql(f)) f.sql("UPDATE rowlock_reach SET until = least(until, clock_timestamp())" + less);
}

/// Of this incarnation.
std::int64_t pulses(fixture& f, std::string const& where = "1 = 1") {
  return number(f, std::string("SELECT count(*) FROM rowlock_pulse WHERE ") +
                       (on_postgresql(f) ? "" : "made_by = CAST(@rowlock_here AS SIGNED) AND ") + where);
}

/// Takes as a manager does: what was refused without a holder settles the quarantine first.
class patient {
 public:
  explicit patient(fixture& f, std::string name = "patient")
      : stranger_(f, std::move(name)), book_(f.source.implementation()->sql(), f.tables()) {}

  bool take(std::string const& name, std::chrono::milliseconds ttl) {
    if (stranger_.take(name, ttl)) return true;
    auto const now = strategies::settle_quarantine(stranger_.session(), book_, ttl, boot_clock::now() + 30s);
    left = now.left;
    return now.changed && now.left == 0ms && stranger_.take(name, ttl);
  }
  stranger* operator->() { return &stranger_; }

  std::chrono::milliseconds left{0};

 private:
  stranger stranger_;
  backend::statement_book const book_;
};

constexpr bool terms_with_pulses(running_pair const& p) {
  return p.engine != dialect::sqlite && p.what != term::session;
}

constexpr bool row_locks_with_pulses(running_pair const& p) {
  return p.engine != dialect::sqlite && p.what == term::session;
}

}  // namespace

PAIRS_CASE("quarantine: nothing is granted, holders go on, and a waiter gets the lock when it is over",
           terms_with_pulses) {
  std::atomic<int> told = 0;
  auto options = f.options;
  options.on_event = [&](event const& e) {
    if (e.kind == event_kind::quarantined) ++told;
  };
  auto const m = f.manager(options);
  auto x = m->make_mutex("x");
  auto y = m->make_mutex("y");
  auto held = x.try_acquire();
  REQUIRE(held);
  forget_pulses(f);
  CHECK(y.try_acquire().status() == acquire_status::quarantined);
  CHECK(y.try_acquire_for(10ms).status() == acquire_status::quarantined);
  CHECK(told == 1);
  CHECK(held->extend(30s));
  CHECK(held->release() == release_result::released);
  CHECK(x.try_acquire().status() == acquire_status::quarantined);
  CHECK(pulses(f) == 1);
  int const looks = f.probe->executed("pulse_look");
  std::jthread const later([&] {
    CHECK(eventually([&] { return f.probe->executed("pulse_look") > looks; }));  // the call waits
    wait_it_out(f);
  });
  CHECK(y.try_acquire_for(60s));
  CHECK(x.try_acquire());
  CHECK(told == 1);
}

TEST_CASE("quarantine: permits are exchanged when it is over, and held meanwhile <postgresql>") {
  postgresql_fixture f;
  auto const m = f.manager();
  auto x = m->make_shared_mutex("x");
  auto held = x.try_acquire_shared();
  REQUIRE(held);
  forget_pulses(f);
  auto const said = [&] {
    try {
      (void)held->try_upgrade();
    } catch (error const& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(said().find("may have forgotten locks") != std::string::npos);
  CHECK(held->valid());
  wait_it_out(f);
  CHECK(held->try_upgrade());
  CHECK(held->release() == release_result::released);
}

PAIRS_CASE("quarantine: row locks", row_locks_with_pulses) {
  lock_manager m(f.source, f.options);
  lock_manager n(f.source, f.options);
  auto x = m.make_mutex("x");
  auto y = m.make_mutex("y");
  auto held = x.try_acquire();
  REQUIRE(held);
  { REQUIRE(y.try_acquire()); }
  forget_pulses(f);
  CHECK(n.make_mutex("y").try_acquire().status() == acquire_status::quarantined);
  CHECK(y.try_acquire_for(10ms).status() == acquire_status::quarantined);
  CHECK(held->valid());
  CHECK(held->release() == release_result::released);
  CHECK(x.try_acquire().status() == acquire_status::quarantined);
  // A row has no ttl: begun, and raised. Elsewhere the former pulses are the reach, and that was five
  // minutes.
  CHECK(pulses(f) == (on_postgresql(f) ? 2 : 1));
  wait_it_out(f);
  CHECK(y.try_acquire_for(60s));
  CHECK(x.try_acquire());
}

PAIRS_CASE("quarantine: of several names none is granted, and all when it is over",
           direct_leases_on_servers) {
  lock_manager m(f.source, f.options);
  std::vector<std::string> const names{"x", "y", "z"};
  forget_pulses(f);
  CHECK(m.try_acquire_all(names).status() == acquire_status::quarantined);
  wait_it_out(f);
  CHECK(m.try_acquire_all(names));
}

PULSE_CASE(
    "quarantine: the first lease that is longer than all before is granted at once, and its ttl is "
    "remembered") {
  grant_nothing(f);
  patient one(f);
  CHECK_FALSE(one->take("x", 20s));
  CHECK(one.take("x", 20s));
  CHECK(one.take("y", 40s));
  CHECK(one->take("z", 30s));
  CHECK(one.take("long", 12h));
  CHECK(pulses(f, "reach = 300000") == 1);
  CHECK(pulses(f) == 4);
  if (on_postgresql(f)) CHECK(number(f, "SELECT count(*) FROM rowlock_reach") == 3);
}

PULSE_CASE("quarantine: a pulse grants for an hour, and the next take asks for another one") {
  patient one(f);
  REQUIRE(one.take("x", 20s));
  make_older(f, 100'000);
  CHECK_FALSE(one->take("y", 20s));
  CHECK(one.take("y", 20s));
  CHECK(one->take("z", 20s));
  CHECK(pulses(f, "until > " + now(f)) == 1);
  CHECK(pulses(f, "until <= " + now(f)) == 0);
  if (on_postgresql(f))
    CHECK(number(f, "SELECT count(*) FROM rowlock_reach WHERE until <= clock_timestamp()") == 0);
  // Where none asks for long, the last one says which incarnation this is.
  auto const base = number(f, "SELECT max(base) FROM rowlock_pulse");
  for (int day = 0; day < 3; ++day) {
    make_older(f, 100'000);
    CHECK(one.take("day" + std::to_string(day), 20s));
    CHECK(pulses(f) <= 2);
    CHECK(number(f, "SELECT max(base) FROM rowlock_pulse") == base);
  }
}

PULSE_CASE("quarantine: what a pulse grants is granted beside what another one has added") {
  grant_nothing(f);
  patient one(f);
  REQUIRE(one.take("long", 50s));
  make_older(f, -1800);  // half of its hour is over
  REQUIRE(one.take("longer", 60s));
  REQUIRE(one.take("short", 1s));
  CHECK(one->take("long again", 50s));
  CHECK(one->take("longer again", 60s));
  make_older(f, 3600);
  REQUIRE(one.take("another hour", 1s));
  SUBCASE("in time") {}
  SUBCASE("the clock was ahead by a day") {
    set_pulses(f, "until = CASE reach WHEN 1000 THEN " + in(f, 90'000) + " ELSE until END");
  }
  CHECK_FALSE(one->take("not yet", 50s));
  CHECK(one.take("not yet", 50s));
  CHECK(one->take("another", 1s));
}

PULSE_CASE("quarantine: it is as long as the longest lease that was granted in the last day, or is held") {
  grant_nothing(f);
  patient one(f);
  patient other(f, "other");
  for (auto const ttl : {50s, 40s, 20s}) REQUIRE(one.take(std::to_string(ttl.count()), ttl));
  REQUIRE(one->release("50"));
  REQUIRE(one->release("20"));
  // Records of once, and rows that only keep a name, are no leases.
  f.sql(
      "INSERT INTO rowlock_locks (name, strategy, term, token, ttl, expires_at) VALUES "
      "('done', 'once', 'record', 1, 250000, " +
      in(f, 86'400) + "), ('kept', 'lease', " + (on_postgresql(f) ? "'name'" : "NULL") +
      ", 1, 250000, '9999-12-31')");
  std::chrono::milliseconds expected{};
  SUBCASE("granted in the last hour") { expected = 51s; }
  SUBCASE("last night") {
    make_older(f, 86'000);
    expected = 51s;
  }
  SUBCASE("long ago: the one that is held") {
    make_older(f, 87'000);
    expected = 41s;
  }
  SUBCASE("long ago, and none is held") {
    make_older(f, 87'000);
    REQUIRE(one->release("40"));
    expected = 1s;
  }
  SUBCASE("and a permit") {
    make_older(f, 87'000);
    f.sql(
        "INSERT INTO rowlock_permits (name, term, strategy, units, token, owner_host, owner_pid, "
        "owner_process, owner_thread, ttl, takeover, acquired_at, expires_at, told) SELECT 'p', 't', "
        "'semaphore', 1, 1, 'h', 1, 'p', 1, 60000, 'clock', " +
        now(f) + ", " + in(f, 60) + ", 3");
    expected = 61s;
  }
  forget_pulses(f);
  CHECK_FALSE(other.take("fresh", 1s));
  CHECK(
      number(f, on_postgresql(f)
                    ? "SELECT round(extract(epoch FROM safe_from - begun) * 1000)::bigint FROM rowlock_pulse"
                    : "SELECT timestampdiff(MICROSECOND, begun, safe_from) DIV 1000 FROM rowlock_pulse WHERE "
                      "begun > '1970-01-01'") == expected.count());
}

PULSE_CASE(
    "quarantine: after a crash nothing is granted until the longest lease is over, and holders go on") {
  grant_nothing(f);
  patient one(f);
  patient other(f, "other");
  REQUIRE(one.take("x", 20s));
  REQUIRE(one.take("y", 40s));
  REQUIRE(one->release("y"));
  forget_pulses(f);
  CHECK(one->renew("x"));
  CHECK(one->has_still("x"));
  CHECK_FALSE(other.take("y", 1s));
  CHECK(other.left > 35s);
  CHECK(other.left <= 41s);
  CHECK(pulses(f) == 1);
  CHECK_FALSE(other.take("fresh", 1s));
  CHECK(pulses(f) == 1);
  CHECK(one->release("x"));
  CHECK_FALSE(one.take("x", 1s));
  wait_it_out(f);
  CHECK(other.take("y", 40s));
  CHECK(one.take("x", 60s));
  CHECK(other.take("fresh", 1s));
}

PULSE_CASE("quarantine: a pulse that a dump or a copy has brought is none") {
  patient one(f);
  REQUIRE(one.take("x", 20s));
  if (on_postgresql(f)) {
    SUBCASE("another transaction's") { f.sql("UPDATE rowlock_pulse SET safe_from = safe_from"); }
    SUBCASE("another table's") { set_pulses(f, "made_at = 'base/1/1'"); }
  } else {
    SUBCASE("another server's") { set_pulses(f, "made_by = made_by + 1"); }
    SUBCASE("another start's") { set_pulses(f, "made_in = made_in - 10"); }
    SUBCASE("an older one of this server's") {
      set_pulses(f, "id = 1");
      f.sql(
          "INSERT INTO rowlock_pulse SELECT utc_timestamp(6), until, reach, 2, safe_from, base + 1, "
          "made_by + 1, made_in FROM rowlock_pulse");
    }
  }
  CHECK_FALSE(one.take("y", 20s));
  CHECK(pulses(f, "safe_from > " + in(f, 15)) == 1);
}

PULSE_CASE("quarantine: tokens are above all that can have been forgotten") {
  patient one(f);
  REQUIRE(one.take("x", 1s));
  auto const before = one->token("x");
  REQUIRE(one->release("x"));
  REQUIRE(one.take("ahead", 1s));
  auto const ahead = before + 7'200'000'000;
  f.sql("UPDATE rowlock_locks SET token = " + std::to_string(ahead) +
        ", term = NULL, expires_at = " + now(f) + " WHERE name = 'ahead'");
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(ahead + 5));
  forget_pulses(f);
  CHECK_FALSE(one.take("x", 1s));
  wait_it_out(f);
  auto const base = ahead + 5 + 3'600'000'000;
  REQUIRE(one.take("x", 1s));
  CHECK(one->token("x") == base + 1);
  REQUIRE(one->release("x"));
  REQUIRE(one.take("x", 1s));
  CHECK(one->token("x") == base + 2);
  REQUIRE(one.take("ahead", 1s));
  CHECK(one->token("ahead") == base + 1);
  REQUIRE(one.take("fresh", 1s));
  CHECK(one->token("fresh") == base + 1);
}

PULSE_CASE("quarantine: a token that a hand has put far ahead does not carry the others along") {
  patient one(f);
  REQUIRE(one.take("x", 1s));
  f.sql("UPDATE rowlock_locks SET token = 9223372036854775000, term = NULL, expires_at = " + now(f));
  forget_pulses(f);
  CHECK_FALSE(one.take("y", 1s));
  wait_it_out(f);
  CHECK(one.take("y", 1s));
}

PULSE_CASE("quarantine: a clock that went back does not make it longer") {
  grant_nothing(f);
  patient one(f);
  REQUIRE(one.take("x", 1s));
  REQUIRE(one->release("x"));
  set_pulses(f, "safe_from = " + in(f, 3600));
  SUBCASE("a lease as before") { CHECK_FALSE(one.take("x", 1s)); }
  SUBCASE("a longer one than all before") { CHECK_FALSE(one.take("x", 60s)); }
  CHECK(one.left <= 32s);
}

PULSE_CASE("quarantine: a term that was watched before a crash is not taken over after it") {
  patient one(f);
  patient other(f, "other");
  REQUIRE(one.take("x", 30s));
  auto const seen = one->read("x");
  backend::statement_book const book(f.source.implementation()->sql(), f.tables());
  auto const watched = [&] {
    return strategies::incarnation_of(other->session(), book, {"x", seen->term}, seen->renewals,
                                      boot_clock::now() + 30s);
  };
  auto const before = watched();
  REQUIRE(before);
  forget_pulses(f);
  CHECK_FALSE(watched());
  CHECK_FALSE(other.take("y", 1s));
  wait_it_out(f);
  CHECK_FALSE(other->claim("x", {seen->term, seen->renewals, *before}));
  auto const after = watched();
  REQUIRE(after);
  CHECK(other->claim("x", {seen->term, seen->renewals, *after}));
}

PAIRS_CASE("quarantine: a session that a pooler has reset is granted nothing until it has asked where it is",
           leases_of_mysql) {
  patient one(f);
  REQUIRE(one.take("x", 1s));
  one->session().script("SET @rowlock_here = NULL, @rowlock_start = NULL, @rowlock_base = NULL",
                        boot_clock::now() + 30s);
  CHECK_FALSE(one->take("y", 1s));
  CHECK(one.take("y", 1s));
  CHECK(number(f, "SELECT count(*) FROM rowlock_pulse") == 1);
}

// Where the clock of a server went back, say: its sessions live on.
PAIRS_CASE("quarantine: a session that knows the incarnation before is granted nothing until it has asked",
           leases_of_mysql) {
  patient one(f);
  REQUIRE(one.take("x", 1s));
  auto const ahead = microseconds_now() + 7'200'000'000;
  f.sql("INSERT INTO rowlock_pulse SELECT utc_timestamp(6), until, 300000, 7, utc_timestamp(6), " +
        std::to_string(ahead) + ", made_by, made_in FROM rowlock_pulse");
  CHECK_FALSE(one->take("y", 1s));
  CHECK(stranger(f).take("z", 1s));
  CHECK(one.take("y", 1s));
  CHECK(one->token("y") > ahead);
  lock_manager m(f.source, f.options);
  auto const permit = m.make_shared_mutex("s").try_acquire();
  REQUIRE(permit);
  CHECK(permit->token().value > ahead);
  CHECK(number(f, "SELECT count(*) FROM rowlock_pulse") == 2);
}

namespace {
/// By its key: so this waits for no other pulse.
std::string const first_pulse =
    " WHERE begun = '1970-01-01' AND until = '9999-12-31' AND reach = 300000 AND id = 0";
}  // namespace

// SQL without C++ adds pulses in the program's own transaction.
PAIRS_CASE("quarantine: no statement waits for a pulse that is not committed", direct_leases_on_servers) {
  patient one(f);
  REQUIRE(one.take("old", 30s));
  auto const seen = one->read("old");
  open_transaction open(f);
  if (on_postgresql(f))
    open.run(
        "INSERT INTO rowlock_pulse (safe_from, reach, until, begun, base) SELECT safe_from, 300000, until, "
        "begun, base FROM rowlock_pulse");
  else
    open.run(
        "INSERT INTO rowlock_pulse SELECT utc_timestamp(6), until, 300000, 7, utc_timestamp(6), base + 1, "
        "made_by, made_in FROM rowlock_pulse");
  auto const before = boot_clock::now();
  CHECK(one.take("x", 1s));
  patient other(f, "other");
  CHECK(other->claim("old", {seen->term, seen->renewals, 0}));
  lock_manager m(f.source, f.options);
  std::vector<std::string> const names{"a", "b"};
  CHECK(m.try_acquire_all(names));
  mutex_options o;
  o.strategy = strategy::unique_insert;
  CHECK(m.make_mutex("u", o).try_acquire());
  CHECK(m.make_shared_mutex("s").try_acquire());
  if (on_postgresql(f))
    forget_pulses(f);
  else
    f.sql("UPDATE rowlock_pulse SET made_by = made_by + 1" + first_pulse);
  CHECK(strategies::settle_quarantine(one->session(), {f.source.implementation()->sql(), f.tables()}, 1s,
                                      boot_clock::now() + 30s)
            .left > 0ms);
  CHECK(boot_clock::now() - before < 900ms);
  open.run("ROLLBACK");
}

// It reads the pulse with a lock, in share.
PAIRS_CASE(
    "quarantine: all_take: not by a pulse that another session changes, nor in another incarnation; a freeze "
    "waits for its end",
    leases_of_mysql) {
  statements s(f);
  std::int64_t const one = 1;
  std::vector<backend::value> const with{text(R"([{"name":"x","term":"t"}])"),
                                         text("lease"),
                                         text("elsewhere"),
                                         one,
                                         text("process"),
                                         one,
                                         std::int64_t{1000},
                                         text("clock"),
                                         nullptr,
                                         text(""),
                                         one,
                                         one};
  put_name(f, "x", "lease");
  {
    open_transaction freezes(f);
    freezes.run("UPDATE rowlock_pulse SET safe_from = safe_from + INTERVAL 1 HOUR");
    CHECK(s.meets("all_take", with) == 0);
    freezes.run("ROLLBACK");
  }
  s.session->script(begin_of(f), statements::soon());
  CHECK(s.meets("all_take", with) == 1);
  auto const another = f.connect();
  auto const could_lock = [&](std::string const& how) {
    return another
        ->execute({"look", "SELECT base FROM rowlock_pulse " + how + " SKIP LOCKED"}, {}, statements::soon())
        .rows.size();
  };
  CHECK(could_lock("FOR UPDATE") == 0);
  CHECK(could_lock("/*!80000 FOR SHARE *//*M! LOCK IN SHARE MODE */") == 1);
  s.session->script("ROLLBACK", statements::soon());
  CHECK(could_lock("FOR UPDATE") == 1);
  auto const ahead = microseconds_now() + 7'200'000'000;
  f.sql("INSERT INTO rowlock_pulse SELECT utc_timestamp(6), until, 300000, 7, utc_timestamp(6), " +
        std::to_string(ahead) + ", made_by, made_in FROM rowlock_pulse");
  CHECK(s.meets("all_take", with) == 0);
  learn_incarnation(*s.session, s.book);
  CHECK(s.meets("all_take", with) == 1);
  CHECK(number(f, "SELECT token FROM rowlock_locks WHERE name = 'x'") > ahead);
}

PAIRS_CASE("quarantine: unique_clear and reap_end_insert: of the incarnation that was watched",
           leases_of_mysql) {
  statements s(f);
  f.sql(
      "INSERT INTO rowlock_locks (name, strategy, term, token, expires_at, longest, longest_term) "
      "VALUES ('x', 'unique_insert', 't', 1, utc_timestamp(6) + INTERVAL 1 HOUR, 1000, 't')");
  open_transaction open(f);
  open.run(
      "INSERT INTO rowlock_pulse SELECT utc_timestamp(6), until, 300000, 7, utc_timestamp(6), base + 1, "
      "made_by, made_in FROM rowlock_pulse");
  std::int64_t const none = 0;
  std::int64_t const one = 1;
  CHECK(s.meets("unique_clear", {text("x"), text("unique_insert"), text("t"), none, one}) == 0);
  CHECK(s.meets("reap_end_insert", {text("x"), text("t"), none, one}) == 0);
  f.sql("UPDATE rowlock_pulse SET made_by = made_by + 1" + first_pulse);
  CHECK(s.meets("unique_clear", {text("x"), text("unique_insert"), text("t"), none, none}) == 0);
  CHECK(s.meets("reap_end_insert", {text("x"), text("t"), none, none}) == 0);
  f.sql("UPDATE rowlock_pulse SET made_by = made_by - 1" + first_pulse);
  CHECK(s.meets("reap_end_insert", {text("x"), text("t"), none, none}) == 1);
  f.sql(
      "INSERT INTO rowlock_locks (name, strategy, term, token, expires_at, longest, longest_term) "
      "VALUES ('x', 'unique_insert', 't', 1, utc_timestamp(6) + INTERVAL 1 HOUR, 1000, 't')");
  CHECK(s.meets("unique_clear", {text("x"), text("unique_insert"), text("t"), none, none}) == 1);
  open.run("ROLLBACK");
}
