#pragma once
// The files that SQLite puts beside a database which uses a WAL.

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/sqlite/file_identity.hpp"

namespace rowlock::backend::sqlite {

/// In bytes. SQLite begins a WAL anew at about 4 MB, unless it is always being read: then it grows.
inline constexpr std::uint64_t large_wal = 8U << 20;

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
  char const* change() noexcept;

  /// Of the WAL in bytes, at the last look.
  std::uint64_t size() const noexcept { return size_; }

  /// Whether its file system may have no room for what it would make the database longer. Then it is to be
  /// written there at once: a full WAL can't be, where the database has grown.
  bool outgrows_disk() const noexcept;

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
  std::uint64_t size_ = 0;
};

}  // namespace rowlock::backend::sqlite
