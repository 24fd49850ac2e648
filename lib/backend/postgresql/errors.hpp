#pragma once
// From PostgreSQL's SQLSTATEs and messages to rowlock::error.

#include <libpq-fe.h>

#include <rowlock/error.hpp>
#include <string>
#include <string_view>

namespace rowlock::backend::postgresql {

/// What the SQLSTATE of a statement that was refused means. in_doubt: the server ended the session.
errc classify(std::string_view sqlstate) noexcept;

/// A refused statement; `where` says which database.
error statement_error(PGresult const*, std::string const& statement, std::string const& where);

/// A connection that failed. `c` must have been opened with PQERRORS_VERBOSE: during the connection libpq
/// tells the SQLSTATE nowhere but in that text.
error connect_error(PGconn const* c, std::string const& where);

bool failed(PGresult const*);
/// It is the last that the server says in this session.
bool ends_session(PGresult const*);

}  // namespace rowlock::backend::postgresql
