#pragma once
// From libpq connection strings to connected sessions.

#include <rowlock/types.hpp>
#include <string>

#include "backend/postgresql/native.hpp"

namespace rowlock::backend::postgresql {

/// Makes OpenSSL, where libpq uses it, register its exit handler. Handlers registered earlier run after it,
/// so handlers that talk to a server must come after this call. [C3]
void initialize_driver();

/// Describes a connection string without its secrets, for messages.
/// @throws error(errc::invalid_argument) if libpq cannot read it, or a value can never work
std::string describe_conninfo(std::string const& conninfo);

enum class manner {
  ours,      ///< for rowlock's sessions: with its defaults, and in UTF-8
  as_given,  ///< as PQconnectdb does
};

/// Connects before `deadline`, and within connect_timeout, which applies to each address of a host.
/// @throws error
native_connection connect(std::string const& conninfo, std::string const& where, boot_time_point deadline,
                          manner how = manner::ours);

/// Whether libpq gives the password, in clear or as MD5, to an unverified server that asks. The caller
/// excludes Unix sockets.
bool gives_password(PGconn*);

/// Runs one statement without rows, on a connection without a session.
/// @return whether it was done in time
bool run(PGconn*, char const* sql, boot_time_point deadline);

}  // namespace rowlock::backend::postgresql
