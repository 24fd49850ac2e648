#pragma once
// The identity of the file at a path: lib/doc/identity.md.

#include <cstdint>
#include <optional>
#include <string>

namespace rowlock::backend::sqlite {

struct file_identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t born_s = 0;  ///< time of birth, if known: inode numbers are used again
  std::uint32_t born_ns = 0;

  bool operator==(file_identity const&) const = default;
};

struct file_look {
  file_identity id;
  std::uint64_t size = 0;   ///< in bytes
  std::uint32_t names = 1;  ///< hard links
  bool mounted = false;     ///< the file itself is a mount point
};

/// Uses the path alone: to close an SQLite file would drop SQLite's POSIX locks in this process.
/// @return nothing if statx(2) fails, with errno set
std::optional<file_look> look_at(std::string const& path) noexcept;
std::optional<file_identity> identify(std::string const& path) noexcept;

/// The WAL lies beside the name that was opened. So a file with two names has two WALs, and programs that use
/// one each do not see each other's locks.
/// @return why the file must not be used, and the remedy; empty if it has one name
std::string other_name(file_look const&, std::string const& path);

/// The change since the file was `opened`; null if none.
char const* change_since(file_identity const& opened, std::string const& path) noexcept;

std::string to_string(file_identity const&);

/// Whether the file with this to_string() is certainly gone from `path`, or has another name.
bool is_gone(std::string const& identity, std::string const& path) noexcept;

}  // namespace rowlock::backend::sqlite
