#pragma once
// The files beside a database with a WAL.

#include <sqlite3.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "backend/sqlite/file_identity.hpp"

namespace rowlock::backend::sqlite {

/// In bytes. SQLite restarts a WAL at about 4 MB, unless it is always being read.
inline constexpr std::uint64_t large_wal = 8U << 20;

/// Whether database `name` has a WAL, or had one that was removed (an encrypted file does not tell that).
/// Precondition: a transaction that has read the database. Executes nothing: the connection can be the
/// program's.
bool has_wal(sqlite3*, char const* name);

/// The WAL and its index at one time. A connection that has a removed one open does not see commits in the
/// new one: two owners of one lock.
class wal_files {
 public:
  /// Precondition: database `name` has a WAL, and was read.
  wal_files(sqlite3*, char const* name);

  /// The change since then; null if none. Updates size().
  char const* change() noexcept;

  /// The WAL's bytes at the last change().
  std::uint64_t size() const noexcept { return size_; }

  /// Whether the WAL is longer than the disk's free space. It must then go into the database at once, which
  /// can't grow on a full disk.
  bool outgrows_disk() const noexcept;

  /// Whether both files are there and open here, not older ones: all connections of a process share one
  /// index, also when they make a new WAL. Without /proc, files that are there count as open.
  bool open_here() const;

 private:
  struct file {
    std::string path;
    std::optional<file_identity> found;  ///< none: no such file
  };
  std::array<file, 2> files_;
  bool index_is_a_file_;
  std::uint64_t size_ = 0;
};

}  // namespace rowlock::backend::sqlite
