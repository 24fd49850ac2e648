#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Each member has an initializer, so that {.schema = "x"} warns of nothing.
struct migrator_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};  ///< made by up() if it is missing; empty: what the search path says
  /// How long to go on trying while transactions of others are in the way. No statement waits longer than a
  /// fraction of a second at once, so that no acquire is blocked behind it.
  std::chrono::milliseconds timeout{60'000};
  /// Told of each step, for people; may be empty.
  std::function<void(std::string_view)> progress{};
};

/// One version of the tables.
struct migration_status {
  int version = 0;
  std::string name;
  bool applied = false;
  bool adopted = false;  ///< applied, but by another tool: rowlock_migrations has no row of it
  std::optional<std::string> applied_at;  ///< UTC, as 2026-01-31T23:59:59Z
  bool checksum_differs = false;          ///< the recorded text is not the one built in
};

/// Brings rowlock's tables up and down. Any number of processes may do so at once, also while locks are taken
/// and held. Each version is one transaction: a migrator that dies, at any moment, leaves one version or the
/// next, whole. MySQL and MariaDB have no transactions for this: there it leaves something that the next up()
/// or down() recognizes and completes.
///
/// What version the tables have is said by the tables (rowlock_meta.schema_version, checked against their
/// columns), so that the files in migrations/ may just as well be applied by psql, sqlite3, Flyway, ...
///
/// Errors: error(errc::row_locked) if others were in the way until the timeout (what() names them where the
/// database tells), errc::schema_missing if the tables are not what their version should have,
/// errc::schema_new if they are too new for this program, errc::in_doubt if the connection broke and the
/// outcome could not be found out; and what the back ends throw. Not thread-safe itself: one migrator per
/// thread.
class ROWLOCK_EXPORT migrator {
 public:
  /// @throws error(errc::invalid_argument) if prefix or schema is no plain identifier
  explicit migrator(connection_source, migrator_options = {});

  /// Newest version that is built in.
  int latest() const noexcept;

  /// Applies what is missing, up to `target` (or all); makes the schema, and an SQLite file, if they are
  /// missing. What another tool applied is recorded. If the tables are newer than this program and still
  /// serve it: does nothing.
  /// @return the versions applied, in order. @throws error
  std::vector<int> up(std::optional<int> target = {});

  /// Goes down to `target` (0: removes every table; the schema, or file, stays). Refuses with
  /// errc::row_locked while locks are held unless `force`, whatever the target: also programs that hold a
  /// lock need the tables that they were made for. Refuses with errc::invalid_argument to go to 0 unless
  /// `forget_tokens`, once a fencing token was drawn: nothing would keep later ones from being lower.
  /// @return the versions undone, in order. @throws error
  std::vector<int> down(int target, bool force = false, bool forget_tokens = false);

  /// One entry for each version that is built in, and for each newer one that the tables have. Changes
  /// nothing.
  std::vector<migration_status> status();

  /// What is wrong with the tables, a line each: missing or different columns, checksums that differ,
  /// versions missing or unknown. Empty: all is well. @throws error(errc::schema_missing) if there are no
  /// tables at all
  std::vector<std::string> validate();

  /// Makes rowlock_migrations agree with the tables: records what is there, mends checksums. Changes no other
  /// table.
  /// @return what it did, a line each.
  std::vector<std::string> repair();

  /// The SQL that up() (or down()) would run between two versions, with schema and prefix put in, a
  /// transaction for each version where there are any: for psql -v ON_ERROR_STOP=1, sqlite3 -bail, mysql and
  /// other tools. up()
  /// recognizes what they did.
  std::string sql(int from, int to) const;

 private:
  connection_source source_;
  migrator_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
