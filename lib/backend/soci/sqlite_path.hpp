#pragma once
// soci-sqlite3.h includes sqlite3.h inside a namespace, and then no other file can include it.

#include <string>

namespace soci {
class session;
}

struct sqlite3;

namespace rowlock::backend::soci {

/// The open file of a session of back end sqlite3; empty for a database in memory.
std::string sqlite_path(::soci::session&);

::sqlite3* sqlite_handle(::soci::session&);

}  // namespace rowlock::backend::soci
