#pragma once
// The state of the schema, read from the tables themselves: another tool can have made them.

#include <string>
#include <vector>

#include "migrate/session.hpp"

namespace rowlock::migrate {

/// A row of rowlock_migrations.
struct recorded_version {
  int version = 0;
  std::string name;
  std::string checksum;
  std::string applied_at;
};

struct schema_state {
  int version = 0;  ///< by rowlock_meta; 0: no tables
  /// Tables of the next version are there, too: a migrator died on its way there or back. Only where ROLLBACK
  /// can't undo DDL.
  bool interrupted = false;
  int oldest_reader = 0;  ///< programs made for an older version must not use these tables
  std::vector<recorded_version> records;
  std::vector<std::string> differences;  ///< from `version`; not looked for in unknown versions

  /// Missing functions or procedures, without prefix; looked for only if the tables are sound.
  std::vector<std::string> missing_routines;

  recorded_version const* record_of(int v) const;
};

/// Precondition: a transaction of `s`. @throws refusal if a table's name is a view's; the view is not read
schema_state inspect(session& s);

/// Objects with the name of a table or function of ours, but of another role or the wrong kind: one sentence
/// each. `to_write`: by the rules for migrating, which trust fewer roles. [C12]
std::vector<std::string> strangers(session& s, bool to_write);

/// @throws refusal if strangers(s, true) finds any: they must not run with our rights
void demand_no_strangers(session& s);

/// For messages: the schema of the options, if any, and the prefix.
std::string display_name(session const& s, std::string_view what);

int latest_version(backend::dialect const&) noexcept;

/// @throws error(errc::failed) if there is no such version (a bug)
backend::migration_text const& migration_of(backend::dialect const&, int version);

/// Of the shipped up text: 16 hexadecimal digits.
std::string checksum_of(backend::migration_text const&);

}  // namespace rowlock::migrate
