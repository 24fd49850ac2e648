#pragma once

#include <string>

#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {

/// Makes the path absolute: chdir() does not change it.
/// @throws error(errc::unsupported) for a database in memory, errc::invalid_argument for U+0000,
/// errc::unreachable if the current folder is gone
std::string checked_path(std::string const& path);

struct opened {
  database native;
  file_identity file;
};

/// For reading and writing. @throws error
opened open_existing(std::string const& path);

/// @throws error if the open database is not the file at `path`, or has another name
file_identity identify_open(sqlite3* db, std::string const& path);

/// Makes the file in WAL mode, with the umask's mode. Harmless if it exists. @throws error
void create_if_missing(std::string const& path);

}  // namespace rowlock::backend::sqlite
