#pragma once
// The program's own connection to a PostgreSQL server.

#include <libpq-fe.h>

#include <memory>

#include "backend/caller_connection.hpp"

namespace rowlock::backend::postgresql {

/// Also for SOCI's back end. `c` must outlive the result.
ROWLOCK_EXPORT std::unique_ptr<caller_connection> borrow(PGconn* c, bool keep_prepared = false);

}  // namespace rowlock::backend::postgresql
