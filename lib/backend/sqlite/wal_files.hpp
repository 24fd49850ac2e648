#pragma once
// The files that SQLite puts beside a database which uses a WAL.

#include <array>
#include <optional>
#include <string>

#include "backend/sqlite/file_identity.hpp"

namespace rowlock::backend::sqlite {

/// The WAL and its index, as they lay beside a database at one time. Whoever has a removed one open goes on
/// with it, and does not see what others write to the new one: two owners of one lock.
class wal_files {
 public:
  /// Looks at them. `path`: the one by which SQLite has the database open, without symbolic links.
  explicit wal_files(std::string const& path);

  /// What has happened to them since; null if nothing.
  char const* change() const noexcept;

  /// Whether this process has these open, and not others that lay there before: all connections of a process
  /// share one index. True if the system does not tell.
  bool open_here() const;

 private:
  struct file {
    std::string path;
    std::optional<file_identity> found;  ///< none: there was no such file
  };
  std::array<file, 2> files_;
};

}  // namespace rowlock::backend::sqlite
