#pragma once
// Opens SQLite files by their paths.

#include <string>

#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {

/// The absolute path, which chdir() does not change.
/// @throws error(errc::unsupported) for a database in memory, errc::invalid_argument for a path with U+0000,
/// errc::unreachable if the current folder is gone
std::string checked_path(std::string const& path);

struct opened {
  database native;
  file_identity file;
};

/// Opens a file that exists, for reading and writing. @throws error
opened open_existing(std::string const& path);

/// The identity of an open database's file.
/// @throws error if it is not the file at `path`, or has another name
file_identity identify_open(sqlite3* db, std::string const& path);

/// Makes the file in WAL mode, with the mode that the umask leaves. Harmless if it exists. @throws error
void create_if_missing(std::string const& path);

}  // namespace rowlock::backend::sqlite
