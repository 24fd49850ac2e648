#include "backend/sqlite/dialect.hpp"

#include <fmt/format.h>

#include <array>

#include "backend/embedded.hpp"
#include "backend/sqlite/checks.hpp"
#include "base/text.hpp"

namespace rowlock::backend::sqlite {

namespace {

std::string literal(std::string_view bytes) {
  return fmt::format("CAST(X'{}' AS TEXT)", base::hexadecimal(bytes));
}

constexpr std::array<std::string_view, 1> guards_in_order{"guard_elsewhere"};
constexpr guards_elsewhere guards{.statements = guards_in_order, .literal = literal};

}  // namespace

dialect const& sqlite_dialect() {
  static dialect const d{.name = "sqlite",
                         .statements = embedded_sqlite_statements(),
                         .migrations = embedded_sqlite_migrations(),
                         .checks = checks(),
                         .has_schemas = false,
                         .longest_identifier = 255,
                         .writes_lock_database = true,
                         .is_file = true,
                         .elsewhere = guards,
                         .flushes_less = true,
                         .has_queues = true,
                         .no_row_locks = "SQLite locks files, not rows: use lease or unique_insert"};
  return d;
}

}  // namespace rowlock::backend::sqlite
