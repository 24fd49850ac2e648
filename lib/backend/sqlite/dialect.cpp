#include "backend/sqlite/dialect.hpp"

#include "backend/embedded.hpp"
#include "backend/sqlite/checks.hpp"

namespace rowlock::backend::sqlite {

dialect const& sqlite_dialect() {
  static dialect const d{.name = "sqlite",
                         .statements = embedded_sqlite_statements(),
                         .migrations = embedded_sqlite_migrations(),
                         .checks = checks(),
                         .has_schemas = false,
                         .longest_identifier = 255,
                         .writes_lock_database = true,
                         .is_file = true,
                         .flushes_less = true,
                         .has_queues = true,
                         .no_row_locks = "SQLite locks files, not rows: use lease or unique_insert"};
  return d;
}

}  // namespace rowlock::backend::sqlite
