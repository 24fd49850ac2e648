#pragma once
// From version to version, each step in one transaction.

#include <vector>

#include "migrate/schema_state.hpp"

namespace rowlock::migrate {

/// Applies missing versions up to `goal`, and records those that another tool applied. @return the applied
/// versions, in order
std::vector<int> go_up(session&, int goal);

struct down_consent {
  bool held_locks = false;
  bool tokens = false;  ///< to forget the drawn and admitted tokens
};

/// Undoes the versions above `goal`. @throws refusal for a loss without `consent` @return the undone
/// versions, in order
std::vector<int> go_down(session&, int goal, down_consent consent);

/// @throws refusal unless the tables are as their version should have them
void demand_sound(schema_state const&);

/// The corrections that rowlock_migrations needs.
struct record_mending {
  std::vector<int> missing;    ///< applied, but not recorded
  std::vector<int> different;  ///< recorded with another text or name
  std::vector<int> stale;      ///< recorded, but no longer applied
};
record_mending compare_records(backend::dialect const&, schema_state const&);

void record(session&, int version);

}  // namespace rowlock::migrate
