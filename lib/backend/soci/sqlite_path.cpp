#include "backend/soci/sqlite_path.hpp"

#include <soci/session.h>
#include <soci/sqlite3/soci-sqlite3.h>

namespace rowlock::backend::soci {

std::string sqlite_path(::soci::session& s) {
  // Not dynamic_cast: the type's information is not exported.
  auto const& session = static_cast<::soci::sqlite3_session_backend&>(*s.get_backend());
  char const* path = ::sqlite_api::sqlite3_db_filename(session.conn_, "main");
  return path == nullptr ? "" : path;
}

}  // namespace rowlock::backend::soci
