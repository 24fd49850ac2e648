#pragma once
// The program's own connection to SQLite databases.

#include <sqlite3.h>

#include <memory>

#include "backend/caller_connection.hpp"

namespace rowlock::backend::sqlite {

/// For SOCI's back end, too. `db` must live longer.
ROWLOCK_EXPORT std::unique_ptr<caller_connection> borrow(sqlite3* db);

}  // namespace rowlock::backend::sqlite
