#pragma once
// Owners of SQLite's objects. Its result codes as rowlock::error.

#include <sqlite3.h>

#include <memory>
#include <rowlock/error.hpp>
#include <string>

namespace rowlock::backend::sqlite {

struct close_database {
  void operator()(sqlite3* db) const noexcept { sqlite3_close_v2(db); }
};
using database = std::unique_ptr<sqlite3, close_database>;

struct finalize {
  void operator()(sqlite3_stmt* s) const noexcept { sqlite3_finalize(s); }
};
using prepared_statement = std::unique_ptr<sqlite3_stmt, finalize>;

/// The next close neither writes the WAL into the database nor removes it: other processes do not have it, or
/// still use it.
void leave_wal_at_close(sqlite3*) noexcept;

/// `code`: a statement's (extended) result code. `message`: SQLite's own.
errc classify(int code, std::string_view message) noexcept;

/// Also true for a file that is no database.
bool is_damage(int code) noexcept;

/// The last error of `db`. `where`: the file.
error statement_error(sqlite3* db, std::string const& statement, std::string const& where);

/// As statement_error(), before any write: nothing is in doubt.
error opening_error(sqlite3* db, std::string const& what, std::string const& where);

}  // namespace rowlock::backend::sqlite
