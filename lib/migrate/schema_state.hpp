#pragma once
// What is there: read from the tables themselves, because another tool may have made them.

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
  /// There are also tables of the next version, as that version has them: a migrator died on its way there or
  /// back. Only where ROLLBACK can't undo DDL.
  bool interrupted = false;
  int oldest_reader = 0;  ///< programs made for an older version must not use these tables
  std::vector<recorded_version> records;
  std::vector<std::string>
      differences;  ///< from what `version` should have; not looked for in unknown versions

  /// Functions or procedures that `version` should have, without prefix; looked for where the tables are as
  /// they should be.
  std::vector<std::string> missing_routines;

  recorded_version const* record_of(int v) const;
};

/// Inside a transaction of `s`. @throws refusal where a table's name is that of a view, which is not read
schema_state inspect(session& s);

/// Objects with the name of one of the tables or functions that belong to another role, or are not what they
/// should be; one sentence for each. `to_write`: by the rules for migrating, which trust fewer roles than
/// those for looking. [C12]
std::vector<std::string> strangers(session& s, bool to_write);

/// @throws refusal if strangers(s, true) finds any: nothing of theirs is to run with our rights
void demand_no_strangers(session& s);

/// For messages: schema and prefix as people write them.
std::string display_name(session const& s, std::string_view what);

int latest_version(backend::dialect const&) noexcept;

/// Throws error(errc::failed) if there is no such version (a bug).
backend::migration_text const& migration_of(backend::dialect const&, int version);

/// Of the up text as it is shipped, 16 hexadecimal digits.
std::string checksum_of(backend::migration_text const&);

}  // namespace rowlock::migrate
