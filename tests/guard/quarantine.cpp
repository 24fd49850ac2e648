// The quarantine inside the program's own transaction: lock() and insert() grant nothing after the database
// may have forgotten locks. lib/doc/quarantine.md

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

bool on_postgresql(fixture const& f) { return dialect_of(f) == dialect::postgresql; }

/// As a crash leaves it, or a promotion.
void forget_pulses(fixture& f) {
  f.sql(on_postgresql(f) ? "DELETE FROM rowlock_pulse" : "UPDATE rowlock_pulse SET made_by = made_by + 1");
}

/// The time passes until grants are safe.
void wait_it_out(fixture& f) {
  f.sql(on_postgresql(f) ? "UPDATE rowlock_pulse SET safe_from = clock_timestamp(), made_by = "
                           "pg_current_xact_id()::xid"
                         : "UPDATE rowlock_pulse SET safe_from = utc_timestamp(6)");
}

}  // namespace

TEST_CASE_TEMPLATE("quarantine: lock() and insert() are refused until it is over, at any isolation level", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const mine = p->view(*m);
  for (auto const& level : levels_of<On>()) {
    if (on_postgresql(f) && level != "READ COMMITTED") continue;
    CAPTURE(level);
    begin(f, *p, level);
    CHECK(mine->try_lock("a"));
    p->run("ROLLBACK");
    forget_pulses(f);
    begin(f, *p, level);
    CHECK_FALSE(mine->try_lock("a"));
    CHECK_FALSE(mine->try_lock_for("a", 50ms));
    p->run("ROLLBACK");
    begin(f, *p, level);
    CHECK_FALSE(mine->insert("b", 30s));
    // The transaction keeps no pulse of another session waiting.
    CHECK(m->make_mutex("c", {.ttl = 5min}).try_acquire().status() == acquire_status::quarantined);
    p->commit();
    CHECK(test::number(f, "SELECT count(*) FROM rowlock_locks WHERE name = 'b'") == 0);
    wait_it_out(f);
    begin(f, *p, level);
    CHECK(mine->try_lock("a"));
    p->run("ROLLBACK");
    begin(f, *p, level);
    auto const inserted = mine->insert("b", 30s);
    CHECK(inserted);
    p->run("ROLLBACK");
  }
}

TEST_CASE_TEMPLATE("quarantine: insert() of a longer lease than all before is granted, and is remembered", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  f.sql(on_postgresql(f) ? "UPDATE rowlock_pulse SET reach = 0, made_by = pg_current_xact_id()::xid"
                         : "UPDATE rowlock_pulse SET reach = 0, until = utc_timestamp(6)");
  auto const m = f.manager();
  auto const p = f.open();
  auto const mine = p->view(*m);
  begin(f, *p, "READ COMMITTED");
  CHECK(mine->insert("b", 40s));
  p->commit();
  CHECK(test::number(f, "SELECT max(reach) FROM rowlock_pulse") == 40'000);
}
