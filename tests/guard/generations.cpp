// PostgreSQL: two terms of one name, of which only that of the highest generation is the lock's
// (lib/doc/postgresql.md). The commit of the other term's holder must be refused. [C92]

#include "base/boot_lead.hpp"
#include "contract/reaping.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// "x" is a lease whose row has moved to a higher generation. A hand has deleted the row that keeps the name,
/// and unique_insert has then put a row there: `below`.
template <class On>
struct below_a_lease {
  explicit below_a_lease(On& fixture) : f(fixture), above(f) {
    f.make_counter();
    REQUIRE(above.take("x"));
    f.sql("UPDATE rowlock_locks SET takes = 128");
    REQUIRE(above.release("x"));
    REQUIRE(above.take("x"));
    REQUIRE(lease_is_held());
    f.sql("DELETE FROM rowlock_locks WHERE generation = 0");
    m = f.manager();
    auto got = m->make_mutex("x", {.strategy = strategy::unique_insert}).try_acquire();
    REQUIRE(got);
    below = std::move(*got);
    REQUIRE(there("generation = 0 AND term = '" + below->term().value + "'"));
  }
  bool there(std::string const& condition) { return rows(f, "name = 'x' AND " + condition) == 1; }
  bool lease_is_held() {
    return there("generation = 1 AND strategy = 'lease' AND term IS NOT NULL") && above.has_still("x");
  }
  /// It is lost, to the lease.
  void check_lost() {
    CHECK_FALSE(below->valid());
    CHECK(below->loss() == loss_reason::taken_over);
    CHECK(lease_is_held());
    CHECK(above.renew("x"));
  }

  On& f;
  stranger above;
  std::shared_ptr<lock_manager> m;
  std::optional<held_lock> below;
};

}  // namespace

TEST_CASE_TEMPLATE("C92: require, execute_commit: a term below the highest generation commits nothing", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  bool commits = false;
  SUBCASE("require") { commits = false; }
  SUBCASE("execute_commit") { commits = true; }
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    On f;
    below_a_lease x(f);
    auto const p = f.open();
    auto const tx = p->view(*x.m);
    begin(f, *p, level);
    p->run(f.set_counter(7));
    CHECK(reason_of([&] { commits ? tx->execute_commit(*x.below) : tx->require(*x.below); }) ==
          errc::lock_lost);
    if (!commits) p->run("ROLLBACK");
    CHECK(p->value(f.read_counter()) == "0");
    x.check_lost();
    CHECK(x.below->release() == release_result::already_lost);
  }
}

TEST_CASE_TEMPLATE("C92: done: a term below the highest generation records nothing", On,
                   ROWLOCK_POSTGRESQL_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = *m->make_mutex("x", {.strategy = strategy::once}).acquire();
  // Only a hand can put a row above a holder's of strategy once.
  f.sql(
      "INSERT INTO rowlock_locks (name, generation, strategy, term, token, expires_at) "
      "VALUES ('x', 1, 'once', 'above', 8, " +
      in_ms(f, 60'000) + ")");
  SUBCASE("in the program's transaction") {
    begin(f, *p);
    CHECK(reason_of([&] { tx->done(held, 1h); }) == errc::lock_lost);
    p->run("COMMIT");
  }
  SUBCASE("by its handle") { CHECK_FALSE(held.done(1h)); }
  CHECK(rows(f, "owner_process IS NOT NULL AND term = '" + held.term().value + "'") == 1);
  CHECK(held.loss() == loss_reason::taken_over);
}

TEST_CASE("C92: extend, note, renewal: a term below the highest generation is lost<libpq on postgresql>") {
  base::boot_clock_may_lead();
  libpq_on_postgresql f;
  below_a_lease x(f);
  SUBCASE("extend") { CHECK_FALSE(x.below->extend(60s)); }
  SUBCASE("set_note") { CHECK_FALSE(x.below->set_note("mine")); }
  SUBCASE("renewal") {
    base::boot_clock_leads_by(10s);  // it is to be renewed
    CHECK(eventually([&] { return !x.below->valid(); }));
  }
  x.check_lost();
  CHECK(x.there("generation = 0 AND renewals = 0 AND coalesce(note, '') = ''"));
}

TEST_CASE("C92: release: a term below the highest generation is deleted, and no other<libpq on postgresql>") {
  libpq_on_postgresql f;
  below_a_lease x(f);
  CHECK(x.below->release() == release_result::released);
  CHECK(x.there("1 = 1"));
  CHECK(x.lease_is_held());
}
