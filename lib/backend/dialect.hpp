#pragma once
// A database apart from its drivers: its texts, and the facts by which the rest of the library tells
// databases apart. Made by the database's folder in lib/backend.

#include <rowlock/error.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace rowlock::backend {

/// A `-- name:` block of lib/sql/<dialect>/*.sql as it was embedded.
struct sql_text {
  std::string_view name;
  std::string_view text;
};

/// One version of migrations/<dialect>/NNN_name.{up,down}.sql as it was embedded.
struct migration_text {
  int version;
  std::string_view name;
  std::string_view up;
  std::string_view down;
};

struct named_check;  // backend/checks.hpp

/// What only the database's own error codes and its own client tell, for lib/migrate.
struct migrating {
  /// A look at the catalog failed because somebody else changed it meanwhile: look again.
  bool (*torn_look)(error const&) noexcept = [](error const&) noexcept { return false; };
  /// A change failed because somebody else made the same thing just before: try again.
  bool (*made_by_another)(error const&) noexcept = [](error const&) noexcept { return false; };
  /// What a user can do who has not the right to migrate, for messages. Empty: nothing that is special to
  /// this database.
  std::string_view (*way_out)(error const&) noexcept = [](error const&) noexcept {
    return std::string_view();
  };
  /// A call of a procedure that can't run, whatever procedure has that name, for where the catalog hides
  /// some; null where it shows all. no_routine() then tells from the error that there is none.
  std::string (*call_in_vain)(std::string_view routine) = nullptr;
  bool (*no_routine)(error const&) noexcept = [](error const&) noexcept { return false; };
  /// What a migration does with a routine when it has made it; null: nothing.
  std::string (*finish_routine)(std::string_view routine) = nullptr;
  /// A migration's text in the form that the database's own client takes.
  std::string (*as_script)(std::string_view) = [](std::string_view text) {
    return "BEGIN;\n" + std::string(text) + "COMMIT;\n";
  };
};

/// What differs between databases apart from the driver: texts and a few facts.
struct dialect {
  std::string_view name;  ///< "sqlite", "postgresql", "mysql"
  std::span<sql_text const> statements{};
  std::span<migration_text const> migrations{};
  std::span<named_check const> checks{};  ///< the doctor's checks, in this order
  bool has_schemas;                       ///< tables may be put into a named schema
  std::size_t longest_identifier;         ///< in bytes
  char quote = '"';                       ///< around identifiers
  /// UPDATE and DELETE can return the rows that they met, and skip locked ones. If not, there is
  /// connection::execute_at_once().
  bool returning = true;
  bool at_once = false;  ///< that is there, and the statements at_once_... for it
  /// ROLLBACK undoes CREATE and DROP. Otherwise each migration's text can be run again, whatever part of it
  /// was run before, and a text that goes down begins with LOCK TABLES.
  bool transactional_ddl = true;
  /// The catalog shows only tables and columns that the user has a right on: what is hidden looks absent.
  bool catalog_hides = false;
  std::string_view abandon_migration = "ROLLBACK";  ///< gives back all that a migrator has locked
  /// A transaction's plain reads may be older than what its locking reads see (InnoDB above READ COMMITTED).
  bool plain_reads_may_be_stale = false;
  /// Whoever writes has locked all tables for the rest of the transaction.
  bool writes_lock_database = false;
  /// The database is a file of this machine's, without a server: for remedies.
  bool is_file = false;
  backend::migrating migrating{};
  bool has_queues = false;            ///< see connection::has_queues()
  bool leaves_queue_at_once = false;  ///< see connection::execute_and_leave_queue()
  std::string_view no_row_locks{};    ///< why there is no row_lock strategy; empty if there is
};

}  // namespace rowlock::backend
