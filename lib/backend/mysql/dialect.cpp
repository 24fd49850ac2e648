#include "backend/mysql/dialect.hpp"

#include "backend/embedded.hpp"
#include "backend/mysql/checks.hpp"

namespace rowlock::backend::mysql {

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
                         .plain_reads_may_be_stale = true};
  return d;
}

}  // namespace rowlock::backend::mysql
