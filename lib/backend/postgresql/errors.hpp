#pragma once
// Maps PostgreSQL's SQLSTATEs and messages to rowlock::error.

#include <libpq-fe.h>

#include <rowlock/error.hpp>
#include <string>
#include <string_view>

namespace rowlock::backend::postgresql {

/// The meaning of a refused statement's SQLSTATE. in_doubt: the server ended the session.
errc classify(std::string_view sqlstate) noexcept;

/// A refused statement. `where` names the database.
error statement_error(PGresult const*, std::string const& statement, std::string const& where);

/// A failed connection. `c` must have PQERRORS_VERBOSE: only that text has the SQLSTATE.
error connect_error(PGconn const* c, std::string const& where);

bool failed(PGresult const*);
/// The server has forgotten the prepared statement (DISCARD, a pooler), or a migration changed its columns'
/// types. Nothing was done.
bool is_forgotten(std::string_view sqlstate) noexcept;
/// The same of a result.
bool is_forgotten(PGresult const*);
/// The server's last message in this session.
bool ends_session(PGresult const*);

}  // namespace rowlock::backend::postgresql
