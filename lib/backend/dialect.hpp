#pragma once
// A database apart from its drivers: texts and distinguishing facts. Its folder in lib/backend makes it.

#include <rowlock/error.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rowlock::backend {

/// An embedded `-- name:` block of lib/sql/<dialect>/*.sql.
struct sql_text {
  std::string_view name;
  std::string_view text;
};

/// An embedded version of migrations/<dialect>/NNN_name.{up,down}.sql.
struct migration_text {
  int version;
  std::string_view name;
  std::string_view up;
  std::string_view down;
};

struct named_check;  // backend/checks.hpp

/// The database's error codes and its own client, for lib/migrate.
struct migrating {
  /// Whether another process changed the catalog during a look.
  bool (*torn_look)(error const&) noexcept = [](error const&) noexcept { return false; };
  /// Whether another process has just made the same object.
  bool (*made_by_another)(error const&) noexcept = [](error const&) noexcept { return false; };
  /// Advice, for messages, if the user cannot migrate. Empty: none of this database's own.
  std::string_view (*way_out)(error const&) noexcept = [](error const&) noexcept {
    return std::string_view();
  };
  /// A call that fails for any procedure of this name. no_routine() recognizes the error of a missing one.
  /// Null: the catalog shows all procedures.
  std::string (*call_in_vain)(std::string_view routine) = nullptr;
  bool (*no_routine)(error const&) noexcept = [](error const&) noexcept { return false; };
  /// A statement for a migration after it has made a routine, or null.
  std::string (*finish_routine)(std::string_view routine) = nullptr;
  /// A migration's text for the database's own client.
  std::string (*as_script)(std::string_view) = [](std::string_view text) {
    return "BEGIN;\n" + std::string(text) + "COMMIT;\n";
  };
};

/// For held_lock::guard_statements(): guards that a driver of the program's own runs.
struct guards_elsewhere {
  std::span<std::string_view const> statements{};  ///< names, in the order in which they run
  std::string_view before{};                       ///< begins each text
  bool numbered = false;                           ///< drivers have $1, $2, ...; otherwise ?
  /// Any bytes as a literal that means the same under all settings, of letters, digits and quotes.
  std::string (*literal)(std::string_view) = nullptr;
};

struct dialect {
  std::string_view name;  ///< "sqlite", "postgresql", "mysql"
  std::span<sql_text const> statements{};
  std::span<migration_text const> migrations{};
  std::span<named_check const> checks{};
  bool has_schemas;                ///< tables can be in a named schema
  std::size_t longest_identifier;  ///< in bytes
  char quote = '"';                ///< around identifiers
  /// UPDATE and DELETE can return matching rows, and skip locked ones. Otherwise there is execute_at_once().
  bool returning = true;
  bool at_once = false;  ///< has execute_at_once() and the statements at_once_...
  /// ROLLBACK undoes CREATE and DROP. Otherwise each migration can be repeated after any part of it, and a
  /// down migration begins with LOCK TABLES.
  bool transactional_ddl = true;
  /// The catalog hides tables and columns on which the user has no right: they look absent.
  bool catalog_hides = false;
  std::string_view abandon_migration = "ROLLBACK";  ///< releases all of a migrator's locks
  /// A transaction's plain reads can be older than its locking reads (InnoDB above READ COMMITTED).
  bool plain_reads_may_be_stale = false;
  /// A write locks all tables for the rest of the transaction.
  bool writes_lock_database = false;
  /// The database is a file on this machine. For remedies.
  bool is_file = false;
  backend::migrating migrating{};
  guards_elsewhere elsewhere{};
  /// Some statements have volatile_mark.
  bool flushes_less = false;
  /// It may forget grants, and grants nothing without a pulse. The kinds of table that it keeps those in.
  std::span<std::string_view const> pulse_tables{};
  /// A session knows the incarnation of the database in which it is granted anything: pulse_here.
  bool remembers_pulse = false;
  bool has_queues = false;            ///< see connection::has_queues()
  bool leaves_queue_at_once = false;  ///< see connection::execute_and_leave_queue()
  std::string_view no_row_locks{};    ///< why there is no row_lock strategy, else empty
};

}  // namespace rowlock::backend
