#pragma once
// Which file it is that a path leads to.

#include <cstdint>
#include <optional>
#include <string>

namespace rowlock::backend::sqlite {

struct file_identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t born_s = 0;  ///< when it was made, if the file system knows: inode numbers are used again
  std::uint32_t born_ns = 0;

  bool operator==(file_identity const&) const = default;
};

/// By path alone: open() and close() of an SQLite file beside SQLite would drop its POSIX locks in this
/// process.
/// @return nothing if there is no such file, with errno set
std::optional<file_identity> identify(std::string const& path) noexcept;

std::string to_string(file_identity const&);

}  // namespace rowlock::backend::sqlite
