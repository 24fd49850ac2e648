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

/// What a path leads to just now.
struct file_look {
  file_identity id;
  std::uint64_t size = 0;   ///< in bytes
  std::uint32_t names = 1;  ///< hard links
  bool mounted = false;     ///< the file itself is what was mounted there, not a folder above it
};

/// By path alone: open() and close() of an SQLite file beside SQLite would drop its POSIX locks in this
/// process.
/// @return nothing if there is no such file, with errno set
std::optional<file_look> look_at(std::string const& path) noexcept;
std::optional<file_identity> identify(std::string const& path) noexcept;

/// SQLite's WAL lies beside the name by which the file was opened. So a file that has two names has two WALs,
/// and two programs that use one name each don't see each other's locks.
/// @return why the file must not be used, and what to do about it; empty if it has one name
std::string other_name(file_look const&, std::string const& path);

/// What has happened to the file since it was opened, when it was `opened`; null if nothing.
char const* change_since(file_identity const& opened, std::string const& path) noexcept;

std::string to_string(file_identity const&);

/// Whether the file that had this identity, as to_string() tells it, is certainly not at `path` any more, or
/// has got another name.
bool is_gone(std::string const& identity, std::string const& path) noexcept;

}  // namespace rowlock::backend::sqlite
