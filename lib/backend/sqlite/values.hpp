#pragma once
// Parameters and columns as SQLite wants and gives them.

#include <sqlite3.h>

#include <span>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::backend::sqlite {

/// The values must live until the statement is reset or bound anew. `what` is the statement's name.
/// @return false if SQLite refuses one: it says why @throws error(errc::invalid_argument) for text with
/// U+0000
bool bind(sqlite3_stmt*, std::span<value const>, std::string const& what);

/// For a statement that has stepped to a row.
row current_row(sqlite3_stmt*);

}  // namespace rowlock::backend::sqlite
