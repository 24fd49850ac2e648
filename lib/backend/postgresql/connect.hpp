#pragma once
// From libpq connection strings to connected sessions.

#include <rowlock/types.hpp>
#include <string>

#include "backend/postgresql/native.hpp"

namespace rowlock::backend::postgresql {

/// Has OpenSSL, where libpq uses it, register its handler for the process's end now: it runs before those of
/// what was registered earlier, and whatever is to talk to a server at the end must come after this. [C3]
void initialize_driver();

/// What libpq makes of a connection string, without the secrets in it: for messages.
/// @throws error(errc::invalid_argument) if libpq can't read it
std::string describe_conninfo(std::string const& conninfo);

enum class manner {
  ours,  ///< for rowlock's sessions: with its defaults where the connection string is silent, and in UTF-8
  as_given,  ///< as PQconnectdb does it
};

/// Connects. Waits until `deadline`, or as long as the connection string's connect_timeout says if that is
/// shorter: that counts for each address of a host's name.
/// @throws error
native_connection connect(std::string const& conninfo, std::string const& where, boot_time_point deadline,
                          manner how = manner::ours);

/// Whether libpq would have given the password, in clear or as MD5, to a server that asked for it and has not
/// proved its name. That a Unix socket is none such is for the caller.
bool gives_password(PGconn*);

/// Runs one statement that returns no rows, on a connection that is no session's.
/// @return whether it was done, in time
bool run(PGconn*, char const* sql, boot_time_point deadline);

}  // namespace rowlock::backend::postgresql
