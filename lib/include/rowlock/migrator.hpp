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

/// Each member has an initializer, so that {.schema = "x"} causes no warning.
struct migrator_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};  ///< up() makes it if it is missing; empty: what the search path says
  /// How long to go on trying while transactions of others are in the way. No statement waits longer than a
  /// fraction of a second at once, so that no acquire is blocked behind it.
  std::chrono::milliseconds timeout{60'000};
  /// Called with a text for people at each step; may be empty.
  std::function<void(std::string_view)> progress{};
};

/// One version of the tables.
struct migration_status {
  int version = 0;
  std::string name;
  bool applied = false;
  bool adopted = false;  ///< applied, but by another tool: rowlock_migrations has no row for it
  std::optional<std::string> applied_at;  ///< UTC, as 2026-01-31T23:59:59Z
  bool checksum_differs = false;          ///< the recorded text is not the one built in
};

/// Brings rowlock's tables to a newer or an older version. Any number of processes may do so at once, also
/// while locks are taken and held. Each version is one transaction: a migrator that dies, at any moment,
/// leaves one version or the next, whole. MySQL and MariaDB have no transactions for this: there a migrator
/// that dies leaves something that the next up() or down() recognizes and completes.
///
/// The tables themselves say which version they have (rowlock_meta.schema_version, checked against their
/// columns). So psql, sqlite3, Flyway, ... may just as well apply the files in migrations/.
///
/// Errors: error(errc::row_locked) if others were in the way until the timeout (what() names them where the
/// database tells), errc::schema_missing if the tables are not what their version should have,
/// errc::schema_new if they are too new for this program, errc::in_doubt if the connection broke and the
/// outcome could not be found out; and what the back ends throw.
///
/// Exception safety: what a call had applied or undone before it threw stays so, whole versions at a time (on
/// MySQL and MariaDB: see above). The object is as it was.
///
/// Thread safety: one migrator per thread.
class ROWLOCK_EXPORT migrator {
 public:
  /// @throws error(errc::invalid_argument) if prefix or schema is no plain identifier
  explicit migrator(connection_source, migrator_options = {});

  /// The newest version that is built in.
  int latest() const noexcept;

  /// Applies what is missing, up to `target` (or all). Makes the schema, and an SQLite file, if they are
  /// missing. Records what another tool applied. Does nothing if the tables are newer than this program and
  /// still serve it.
  /// @return the versions applied, in order. @throws error
  std::vector<int> up(std::optional<int> target = {});

  /// Goes down to `target` (0: removes every table; the schema, or file, stays). Without `force` it refuses
  /// with errc::row_locked while locks are held, whatever the target: also programs that hold a lock need the
  /// tables that they were made for. Without `forget_tokens` it refuses with errc::invalid_argument to go to
  /// 0 once a fencing token was drawn: nothing would keep later tokens from being lower. The same below 8
  /// once a token was admitted (transaction::admit(), rowlock_admit): a holder that has lost its lock of a
  /// quorum would be let in again.
  /// @return the versions undone, in order. @throws error
  std::vector<int> down(int target, bool force = false, bool forget_tokens = false);

  /// One entry for each version that is built in, and for each newer one that the tables have. Changes
  /// nothing.
  std::vector<migration_status> status();

  /// What is wrong with the tables, one line for each problem: missing or different columns, checksums that
  /// differ, versions missing or unknown. Empty: all is well.
  /// @throws error(errc::schema_missing) if there are no tables at all
  std::vector<std::string> validate();

  /// Makes rowlock_migrations agree with the tables: records what is there, corrects checksums. Changes no
  /// other table.
  /// @return what it did, one line for each step.
  std::vector<std::string> repair();

  /// The SQL that up() (or down()) would run between two versions, with schema and prefix put in. Each
  /// version is a transaction where the database has transactions for this. For psql -v ON_ERROR_STOP=1,
  /// sqlite3 -bail, mysql and other tools. up() recognizes what they did.
  std::string sql(int from, int to) const;

 private:
  connection_source source_;
  migrator_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
