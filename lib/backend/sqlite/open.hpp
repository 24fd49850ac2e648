#pragma once
// From paths to open databases.

#include <string>

#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/native.hpp"

namespace rowlock::backend::sqlite {

/// The path made absolute, so that chdir() does not change what it means.
/// @throws error(errc::unsupported) for an in-memory database, errc::invalid_argument for other things that
/// are no path
std::string checked_path(std::string const& path);

struct opened {
  database native;
  file_identity file;
};

/// Opens a file that exists, for reading and writing. @throws error
opened open_existing(std::string const& path);

/// What an open database is stored in, made sure that it is the file at `path`, and has no other name.
/// @throws error
file_identity identify_open(sqlite3* db, std::string const& path);

/// Makes the file, with the mode that the umask leaves, and has it use a WAL. Harmless if it exists. @throws
/// error
void create_if_missing(std::string const& path);

}  // namespace rowlock::backend::sqlite
