#include "backend/postgresql/dialect.hpp"

#include "backend/embedded.hpp"
#include "backend/postgresql/checks.hpp"

namespace rowlock::backend::postgresql {

namespace {

// 004: its functions were left on the tables' schema as search path, with an operator that others may have
// put there. What is at version 5 has other functions since.
constexpr former_text former[] = {{4, "520561546b054cdc"}};

}  // namespace

dialect const& postgresql_dialect() {
  static dialect const d{.name = "postgresql",
                         .statements = embedded_postgresql_statements(),
                         .migrations = embedded_postgresql_migrations(),
                         .checks = checks(),
                         .has_schemas = true,
                         .longest_identifier = 63,
                         .former_texts = former};
  return d;
}

}  // namespace rowlock::backend::postgresql
