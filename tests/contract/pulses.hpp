#pragma once
// What becomes of pulses, by a hand. lib/doc/quarantine.md

#include <string>

#include "contract/conditions.hpp"

namespace rowlock::test {

inline bool on_postgresql(fixture const& f) { return dialect_of(f) == dialect::postgresql; }

/// SQL for the database's clock.
inline std::string now(fixture const& f) {
  return on_postgresql(f) ? "clock_timestamp()" : "utc_timestamp(6)";
}

/// Changes pulses without making them another transaction's.
inline void set_pulses(fixture& f, std::string const& what) {
  f.sql("UPDATE rowlock_pulse SET " + what +
        (on_postgresql(f) ? ", made_by = pg_current_xact_id()::xid" : ""));
}

/// As a crash leaves them, or a promotion.
inline void forget_pulses(fixture& f) {
  f.sql(on_postgresql(f) ? "DELETE FROM rowlock_pulse" : "UPDATE rowlock_pulse SET made_by = made_by + 1");
}

/// The time passes until grants are safe.
inline void wait_it_out(fixture& f) { set_pulses(f, "safe_from = " + now(f)); }

}  // namespace rowlock::test
