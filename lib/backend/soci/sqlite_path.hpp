#pragma once
// Apart from the rest: soci-sqlite3.h includes sqlite3.h inside a namespace, after which nobody else can.

#include <string>

namespace soci {
class session;
}

struct sqlite3;

namespace rowlock::backend::soci {

/// The file that a session of SOCI's back end sqlite3 has open; empty for a database in memory.
std::string sqlite_path(::soci::session&);

/// The session's own connection.
::sqlite3* sqlite_handle(::soci::session&);

}  // namespace rowlock::backend::soci
