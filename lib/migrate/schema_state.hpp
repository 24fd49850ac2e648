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
  /// Besides `version` there are tables of the next one, each as that has it: a migrator died on its way
  /// there or back. Only where DDL can't be undone by ROLLBACK.
  bool interrupted = false;
  int oldest_reader = 0;  ///< programs made for an older version must not use these tables
  std::vector<recorded_version> records;
  std::vector<std::string>
      differences;  ///< from what `version` should have; not looked for in unknown versions

  recorded_version const* record_of(int v) const;
};

/// Inside a transaction of `s`.
schema_state inspect(session& s);

/// For messages: schema and prefix as people write them.
std::string display_name(session const& s, std::string_view what);

int latest_version(backend::dialect const&) noexcept;

/// Throws error(errc::failed) if there is no such version (a bug).
backend::migration_text const& migration_of(backend::dialect const&, int version);

/// Of the up text as it is shipped, 16 hexadecimal digits.
std::string checksum_of(backend::migration_text const&);

}  // namespace rowlock::migrate
