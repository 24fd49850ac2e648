// PostgreSQL: without a pulse nothing is granted, and the first session begins one that waits for the longest
// lease. Rows of rowlock_pulse that go stand for a crash or a promotion. lib/doc/quarantine.md

#include <atomic>
#include <string>
#include <thread>

#include "contract/conditions.hpp"
#include "contract/reaping.hpp"
#include "strategy/quarantine.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

#define PULSE_CASE(text) PAIRS_CASE(text, leases_of_postgresql)

/// As a crash leaves it, or a promotion.
void forget_pulses(fixture& f) { f.sql("DELETE FROM rowlock_pulse"); }
/// The time passes until grants are safe.
void wait_it_out(fixture& f) {
  f.sql("UPDATE rowlock_pulse SET safe_from = clock_timestamp(), made_by = pg_current_xact_id()::xid");
}
std::int64_t pulses(fixture& f, std::string const& where = "true") {
  return number(f, "SELECT count(*) FROM rowlock_pulse WHERE " + where);
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

constexpr bool terms_on_postgresql(running_pair const& p) {
  return p.engine == dialect::postgresql && p.what != term::session;
}

constexpr bool row_locks_on_postgresql(running_pair const& p) {
  return p.engine == dialect::postgresql && p.what == term::session;
}

}  // namespace

PAIRS_CASE("quarantine: nothing is granted, holders go on, and a waiter gets the lock when it is over",
           terms_on_postgresql) {
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

PAIRS_CASE("quarantine: row locks", row_locks_on_postgresql) {
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
  CHECK(pulses(f) == 2);  // a row has no ttl: begun, and raised
  wait_it_out(f);
  CHECK(y.try_acquire_for(60s));
  CHECK(x.try_acquire());
}

PAIRS_CASE("quarantine: of several names none is granted, and all when it is over", leases_of_postgresql) {
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
  f.sql("UPDATE rowlock_pulse SET reach = 0, made_by = pg_current_xact_id()::xid");
  patient one(f);
  CHECK_FALSE(one->take("x", 20s));
  CHECK(one.take("x", 20s));
  CHECK(one.take("y", 40s));
  CHECK(one->take("z", 30s));
  CHECK(one.take("long", 12h));
  CHECK(number(f, "SELECT max(ttl) FROM rowlock_reach") == 300'000);
  CHECK(number(f, "SELECT count(*) FROM rowlock_reach") == 3);
}

PULSE_CASE(
    "quarantine: after a crash nothing is granted until the longest lease is over, and holders go on") {
  f.sql("UPDATE rowlock_pulse SET reach = 0, made_by = pg_current_xact_id()::xid");
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
  REQUIRE(one->release("x"));
  SUBCASE("another transaction's") { f.sql("UPDATE rowlock_pulse SET safe_from = safe_from"); }
  SUBCASE("another table's") {
    f.sql("UPDATE rowlock_pulse SET made_at = 'base/1/1', made_by = pg_current_xact_id()::xid");
  }
  CHECK_FALSE(one.take("x", 20s));
  CHECK(pulses(f, "safe_from > clock_timestamp() + interval '15 seconds'") == 1);
}

PULSE_CASE("quarantine: tokens are above all that can have been forgotten") {
  patient one(f);
  REQUIRE(one.take("x", 1s));
  auto const before = one->token("x");
  REQUIRE(one->release("x"));
  REQUIRE(one.take("ahead", 1s));
  auto const ahead = before + 7'200'000'000;
  f.sql("UPDATE rowlock_locks SET token = " + std::to_string(ahead) +
        ", term = NULL, expires_at = clock_timestamp() WHERE name = 'ahead'");
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
  f.sql("UPDATE rowlock_locks SET token = 9223372036854775000, term = NULL, expires_at = clock_timestamp()");
  forget_pulses(f);
  CHECK_FALSE(one.take("y", 1s));
  wait_it_out(f);
  CHECK(one.take("y", 1s));
}

PULSE_CASE("quarantine: a clock that went back does not make it longer") {
  patient one(f);
  REQUIRE(one.take("x", 1s));
  REQUIRE(one->release("x"));
  f.sql(
      "UPDATE rowlock_pulse SET safe_from = clock_timestamp() + interval '1 hour', made_by = "
      "pg_current_xact_id()::xid");
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
