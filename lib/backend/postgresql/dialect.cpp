#include "backend/postgresql/dialect.hpp"

#include <fmt/format.h>

#include <array>

#include "backend/embedded.hpp"
#include "backend/postgresql/checks.hpp"
#include "base/text.hpp"

namespace rowlock::backend::postgresql {

namespace {

// undefined_table, undefined_column, internal_error: a table was dropped between two looks at the catalog.
// Even in an old snapshot the catalog shows the present.
bool torn_look(error const& e) noexcept {
  return e.sqlstate() == "42P01" || e.sqlstate() == "42703" || e.sqlstate() == "XX000";
}

// unique_violation, duplicate_schema: migrators with different prefixes made the schema at the same time.
bool made_by_another(error const& e) noexcept { return e.sqlstate() == "23505" || e.sqlstate() == "42P06"; }

std::string_view way_out(error const& e) noexcept {
  if (e.sqlstate() == "42501")  // insufficient_privilege
    return "migrating needs a role that owns the tables and may CREATE in their schema (GRANT USAGE, CREATE "
           "ON SCHEMA ... TO ...); or let such a role run what `rowlock migrate sql` prints";
  if (e.sqlstate() == "3F000")  // invalid_schema_name
    return "the search path names no schema that exists: say which one with --schema, it is made then";
  return {};
}

// As each migration does. The name is unique: the migrator refuses a second one.
std::string finish_routine(std::string_view routine) {
  return fmt::format("ALTER FUNCTION {} SET search_path = pg_catalog, pg_temp", routine);
}

constexpr std::array<std::string_view, 3> pulse_tables{"reach", "pulse", "quarantine"};

std::string literal(std::string_view bytes) {
  return fmt::format("pg_catalog.convert_from(pg_catalog.decode('{}', 'hex'), 'UTF8')",
                     base::hexadecimal(bytes));
}

constexpr std::array<std::string_view, 1> guards_in_order{"guard_elsewhere"};
constexpr guards_elsewhere guards{.statements = guards_in_order, .numbered = true, .literal = literal};

}  // namespace

dialect const& postgresql_dialect() {
  static dialect const d{.name = "postgresql",
                         .statements = embedded_postgresql_statements(),
                         .migrations = embedded_postgresql_migrations(),
                         .checks = checks(),
                         .has_schemas = true,
                         .longest_identifier = 63,
                         .at_once = true,
                         .migrating = {.torn_look = torn_look,
                                       .made_by_another = made_by_another,
                                       .way_out = way_out,
                                       .finish_routine = finish_routine},
                         .elsewhere = guards,
                         .flushes_less = true,
                         .pulse_tables = pulse_tables,
                         .has_queues = true,
                         .leaves_queue_at_once = true};
  return d;
}

}  // namespace rowlock::backend::postgresql
