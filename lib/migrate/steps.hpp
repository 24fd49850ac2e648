#pragma once
// From version to version: each step is one transaction.

#include <vector>

#include "migrate/schema_state.hpp"

namespace rowlock::migrate {

/// Applies what is missing up to `goal`, records what another tool applied. @return the versions applied, in
/// order
std::vector<int> go_up(session&, int goal);

/// What go_down() may lose.
struct down_consent {
  bool held_locks = false;  ///< to go down although locks are held
  bool tokens = false;      ///< to forget which tokens were drawn, or admitted, with their tables
};

/// Undoes what is above `goal`; refuses what `consent` does not allow. @return the versions undone, in order
std::vector<int> go_down(session&, int goal, down_consent consent);

/// Throws refusal unless the tables are what their version should have.
void demand_sound(schema_state const&);

/// What is to be done about rowlock_migrations so that it agrees with the tables.
struct record_mending {
  std::vector<int> missing;    ///< applied, but not recorded
  std::vector<int> different;  ///< recorded with another text or name
  std::vector<int> stale;      ///< recorded, but no longer applied
};
record_mending compare_records(backend::dialect const&, schema_state const&);

void record(session&, int version);

}  // namespace rowlock::migrate
