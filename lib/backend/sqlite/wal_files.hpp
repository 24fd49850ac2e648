#pragma once
// The files that SQLite puts beside a database which uses a WAL.

#include <sqlite3.h>

#include <array>
#include <optional>
#include <string>

#include "backend/sqlite/file_identity.hpp"

namespace rowlock::backend::sqlite {

/// Whether that database of the connection, which has read it and is in a transaction, has a WAL, or has had
/// one that was removed (an encrypted file does not tell that). Executes nothing: the connection may be the
/// program's.
bool has_wal(sqlite3*, char const* name);

/// The WAL and its index, as they lay beside a database at one time. Whoever has a removed one open goes on
/// with it, and does not see what others write to the new one: two owners of one lock.
class wal_files {
 public:
  /// Looks at them, where that database of the connection has a WAL and was read.
  wal_files(sqlite3*, char const* name);

  /// What has happened to them since; null if nothing.
  char const* change() const noexcept;

  /// Whether both lie there, and this process has these open, and not others that lay there before: all
  /// connections of a process share one index, also when they make a new WAL. What lies there counts as open
  /// if the system does not tell.
  bool open_here() const;

 private:
  struct file {
    std::string path;
    std::optional<file_identity> found;  ///< none: there was no such file
  };
  std::array<file, 2> files_;
  bool index_is_a_file_;
};

}  // namespace rowlock::backend::sqlite
