#pragma once
// SQLite's objects with an owner, and its result codes as rowlock::error.

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

/// The next close neither writes what is in the WAL to the database nor removes the WAL: for one that others
/// do not have, or would be taken away from them.
void leave_wal_at_close(sqlite3*) noexcept;

/// What an (extended) result code of a statement means; `message` is SQLite's own.
errc classify(int code, std::string_view message) noexcept;

/// The file is no database, or no whole one.
bool is_damage(int code) noexcept;

/// The error that `db` reported last. `where` says which file.
error statement_error(sqlite3* db, std::string const& statement, std::string const& where);

/// As statement_error(), before anything was to be written: nothing is in doubt.
error opening_error(sqlite3* db, std::string const& what, std::string const& where);

}  // namespace rowlock::backend::sqlite
