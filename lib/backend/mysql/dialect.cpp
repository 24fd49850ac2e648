#include "backend/mysql/dialect.hpp"

#include <fmt/format.h>

#include <array>

#include "backend/embedded.hpp"
#include "backend/mysql/checks.hpp"
#include "base/text.hpp"

namespace rowlock::backend::mysql {

namespace {

// ER_NO_SUCH_TABLE, ER_BAD_FIELD_ERROR: a table was dropped between two looks at the catalog.
bool torn_look(error const& e) noexcept { return e.native_code() == 1146 || e.native_code() == 1054; }

// ER_DB_CREATE_EXISTS.
bool made_by_another(error const& e) noexcept { return e.native_code() == 1007; }

// Empty for a refused log-in.
std::string_view way_out(error const& e) noexcept {
  if (e.reason() != errc::access_denied || e.native_code() == 0 || e.statement().empty()) return {};
  return "migrating needs a user with the rights CREATE, ALTER, DROP, LOCK TABLES, CREATE ROUTINE, ALTER "
         "ROUTINE, SELECT, INSERT, UPDATE and DELETE in the database (GRANT ... ON DATABASE.* TO ...); or "
         "let "
         "such a user run what `rowlock migrate sql` prints";
}

// No procedure of rowlock's has so many parameters. In another one's call the sub-select of two rows fails
// before the procedure begins.
std::string call_in_vain(std::string_view routine) {
  auto text = fmt::format("CALL {}((SELECT 1 UNION ALL SELECT 2)", routine);
  for (int more = 0; more < 30; ++more) text += ", NULL";
  return text + ")";
}

// ER_SP_DOES_NOT_EXIST. A procedure that may not be called is another error.
bool no_routine(error const& e) noexcept { return e.native_code() == 1305; }

// The client `mysql` splits its input at semicolons, also within a procedure.
std::string as_script(std::string_view text) {
  if (text.find("\nCREATE PROCEDURE ") == text.npos) return std::string(text);
  return "DELIMITER $$\n" + std::string(text) + "$$\nDELIMITER ;\n";
}

constexpr std::array<std::string_view, 2> pulse_tables{"pulse", "quarantine"};

std::string literal(std::string_view bytes) { return fmt::format("X'{}'", base::hexadecimal(bytes)); }

constexpr std::array<std::string_view, 2> guards_in_order{"guard_elsewhere", "guard_require"};
// As in the procedures: from the version on that has the setting on by default.
constexpr std::string_view before_guards = "/*M!110600 SET STATEMENT innodb_snapshot_isolation = OFF FOR */ ";
constexpr guards_elsewhere guards{.statements = guards_in_order, .before = before_guards, .literal = literal};

}  // namespace

dialect const& mysql_dialect() {
  static dialect const d{.name = "mysql",
                         .statements = embedded_mysql_statements(),
                         .migrations = embedded_mysql_migrations(),
                         .checks = checks(),
                         .has_schemas = true,
                         .longest_identifier = 64,
                         .quote = '`',
                         .returning = false,
                         .transactional_ddl = false,
                         .catalog_hides = true,
                         .abandon_migration = "ROLLBACK;UNLOCK TABLES",
                         .plain_reads_may_be_stale = true,
                         .migrating = {.torn_look = torn_look,
                                       .made_by_another = made_by_another,
                                       .way_out = way_out,
                                       .call_in_vain = call_in_vain,
                                       .no_routine = no_routine,
                                       .as_script = as_script},
                         .elsewhere = guards,
                         .pulse_tables = pulse_tables,
                         .remembers_pulse = true,
                         .has_queues = true,
                         .leaves_queue_at_once = true};
  return d;
}

}  // namespace rowlock::backend::mysql
