#include "backend/postgresql/dialect.hpp"

#include "backend/embedded.hpp"

namespace rowlock::backend::postgresql {

dialect const& postgresql_dialect() {
  static dialect const d{.name = "postgresql",
                         .statements = embedded_postgresql_statements(),
                         .migrations = embedded_postgresql_migrations(),
                         .has_schemas = true,
                         .longest_identifier = 63};
  return d;
}

}  // namespace rowlock::backend::postgresql
