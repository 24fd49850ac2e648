#include "backend/soci/sqlite_path.hpp"

#include <soci/session.h>
#include <soci/sqlite3/soci-sqlite3.h>

namespace rowlock::backend::soci {
namespace {

// Not dynamic_cast: the type's information is not exported.
::sqlite_api::sqlite3* native(::soci::session& s) {
  return static_cast<::soci::sqlite3_session_backend&>(*s.get_backend()).conn_;
}

}  // namespace

std::string sqlite_path(::soci::session& s) {
  char const* path = ::sqlite_api::sqlite3_db_filename(native(s), "main");
  return path == nullptr ? "" : path;
}

// SOCI declares the same type inside a namespace.
::sqlite3* sqlite_handle(::soci::session& s) { return reinterpret_cast<::sqlite3*>(native(s)); }

}  // namespace rowlock::backend::soci
