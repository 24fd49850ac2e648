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

/// Members have initializers, so that {.schema = "x"} causes no warning.
struct migrator_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};  ///< up() makes it if it is missing; empty: by the search path
  /// The longest wait for transactions of other sessions. Each statement waits only a fraction of a second,
  /// so that no acquire queues behind it.
  std::chrono::milliseconds timeout{60'000};
  /// Called with a text for people at each step; may be empty.
  std::function<void(std::string_view)> progress{};
};

/// One version of the tables.
struct migration_status {
  int version = 0;
  std::string name;
  bool applied = false;
  bool adopted = false;                   ///< applied by another tool: rowlock_migrations has no row for it
  std::optional<std::string> applied_at;  ///< UTC, as 2026-01-31T23:59:59Z
  bool checksum_differs = false;          ///< the recorded text is not the built-in one
};

/// Brings rowlock's tables to a newer or an older version. Any number of processes may do so at once, also
/// while locks are taken and held. Each version is one transaction: a dead migrator leaves one whole version
/// or the next. MySQL and MariaDB have no transactions for this. There the next up() or down() completes its
/// work.
///
/// The tables tell their version (rowlock_meta.schema_version, checked against their columns). So psql,
/// sqlite3, Flyway and so on may apply the files in migrations/, too.
///
/// Errors, besides those of the back ends:
/// - errc::row_locked: other transactions were in the way until the timeout. what() names them if the
///   database knows them.
/// - errc::schema_missing: the tables do not fit their version.
/// - errc::schema_new: the tables are too new for this program.
/// - errc::in_doubt: the connection broke and the outcome is unknown.
///
/// Exception safety: whole versions applied or undone before the error stay so (MySQL and MariaDB: see
/// above). The object is as it was.
///
/// Thread safety: one migrator per thread.
class ROWLOCK_EXPORT migrator {
 public:
  /// @throws error(errc::invalid_argument) if prefix or schema is no plain identifier
  explicit migrator(connection_source, migrator_options = {});

  /// The newest built-in version.
  int latest() const noexcept;

  /// Applies the missing versions, up to `target` or all. Makes the schema, or an SQLite file, if missing.
  /// Records versions of another tool. Does nothing if the tables are newer than this program and still serve
  /// it.
  /// @return the versions applied, in order. @throws error
  std::vector<int> up(std::optional<int> target = {});

  /// Goes down to `target` (0: removes every table; the schema, or file, stays).
  /// @param target the version to go to
  /// @param force also while locks are held. Otherwise refused (errc::row_locked), because running programs
  /// need their tables
  /// @param forget_tokens also to 0 after a fencing token was drawn or admitted (transaction::admit(),
  /// rowlock_admit). Otherwise refused (errc::invalid_argument): later tokens could be lower, and a previous
  /// holder admitted again
  /// @return the versions undone, in order. @throws error
  std::vector<int> down(int target, bool force = false, bool forget_tokens = false);

  /// One entry for each built-in version, and for each newer one of the tables. Changes nothing.
  std::vector<migration_status> status();

  /// The problems of the tables, one line for each: missing or different columns, different checksums,
  /// missing or unknown versions. Empty: all is well.
  /// @throws error(errc::schema_missing) if there are no tables at all
  std::vector<std::string> validate();

  /// Makes rowlock_migrations agree with the tables: adds, corrects and deletes records. Changes no other
  /// table.
  /// @return one line for each step
  std::vector<std::string> repair();

  /// The SQL of up() or down() between two versions, with schema and prefix put in. Each version is a
  /// transaction where the database allows it. For psql -v ON_ERROR_STOP=1, sqlite3 -bail, mysql and so on.
  std::string sql(int from, int to) const;

 private:
  connection_source source_;
  migrator_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
