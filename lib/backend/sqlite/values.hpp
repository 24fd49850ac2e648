#pragma once

#include <sqlite3.h>

#include <span>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::backend::sqlite {

/// The values must live until the statement is reset or bound again. `what`: its name.
/// @return false if SQLite refuses one, and has the reason @throws error(errc::invalid_argument) for U+0000
bool bind(sqlite3_stmt*, std::span<value const>, std::string const& what);

/// Precondition: the statement is at a row.
row current_row(sqlite3_stmt*);

}  // namespace rowlock::backend::sqlite
