#pragma once

#include <rowlock/connection_source.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock {

struct migrator_options {
  std::string table_prefix = "rowlock_";
  std::string schema;  ///< made by up() if it is missing; empty: what the search path says
  /// How long to go on trying while transactions of others are in the way. No statement waits longer than a fraction
  /// of a second at once, so that no acquire is blocked behind it.
  std::chrono::milliseconds timeout{60'000};
  /// Told of each step, for people; may be empty.
  std::function<void(std::string_view)> progress;
};

struct migration_status {
  int version = 0;
  std::string name;
  bool applied = false;
  bool adopted = false;                 ///< applied, but by another tool: rowlock_migrations has no row of it
  std::optional<std::string> applied_at;///< as the database writes it
  bool checksum_differs = false;        ///< the recorded text is not the one built in
};

/// Brings rowlock's tables up and down. Any number of processes may do so at once. Not thread-safe itself.
class migrator {
 public:
  explicit migrator(connection_source, migrator_options = {});

  /// Newest version that is built in.
  int latest() const noexcept;

  /// Applies what is missing, up to `target` (or all). What another tool applied is recognized by looking at the
  /// tables, and recorded. @return the versions applied, in order. @throws error
  std::vector<int> up(std::optional<int> target = {});

  /// Goes down to `target` (0: removes everything). Refuses with errc::row_locked while locks are held unless `force`.
  /// @return the versions undone, in order. @throws error
  std::vector<int> down(int target, bool force = false);

  std::vector<migration_status> status();

  /// What is wrong with the tables, a line each: missing or different columns, checksums that differ, versions missing
  /// or unknown. Empty: all is well. @throws error(errc::schema_missing) if there are no tables at all
  std::vector<std::string> validate();

  /// Makes rowlock_migrations agree with the tables: records what is there, mends checksums. Changes no other table.
  /// @return what it did, a line each.
  std::vector<std::string> repair();

  /// The SQL that up() (or down()) would run between two versions, with schema and prefix put in, for other tools.
  std::string sql(int from, int to) const;

 private:
  connection_source source_;
  migrator_options options_;
};

}  // namespace rowlock
