#include "backend/sqlite/file_identity.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>

namespace rowlock::backend::sqlite {

std::optional<file_look> look_at(std::string const& path) noexcept {
  struct statx found {};
  constexpr unsigned wanted = STATX_INO | STATX_SIZE | STATX_BTIME | STATX_NLINK;
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_SYNC_AS_STAT, wanted, &found) != 0) return {};
  file_look look{{::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino, 0, 0}, found.stx_size};
  if ((found.stx_mask & STATX_BTIME) != 0) {
    look.id.born_s = found.stx_btime.tv_sec;
    look.id.born_ns = found.stx_btime.tv_nsec;
  }
  if ((found.stx_mask & STATX_NLINK) != 0) look.names = found.stx_nlink;
  look.mounted = (found.stx_attributes & found.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
  return look;
}

std::optional<file_identity> identify(std::string const& path) noexcept {
  if (auto const found = look_at(path)) return found->id;
  return {};
}

std::string other_name(file_look const& look, std::string const& path) {
  if (look.mounted)
    return fmt::format(
        "SQLite file '{}' is mounted by itself, as `docker run -v FILE:FILE` does: what uses it by its other "
        "path has another WAL, and would not see the locks that are taken here. Mount the folder that it is "
        "in, not the file",
        path);
  if (look.names > 1)
    return fmt::format(
        "SQLite file '{0}' has {1} names (hard links): what uses it by another name has another WAL, and "
        "would not see the locks that are taken here. Remove the other {2} (find / -xdev -samefile '{0}'), "
        "and use a symbolic link, or mount the folder that the file is in, where it has to be in two places",
        path, look.names, look.names == 2 ? "one" : "ones");
  return {};
}

char const* change_since(file_identity const& opened, std::string const& path) noexcept {
  auto const now = look_at(path);
  if (!now || now->id != opened) return "the file was removed or replaced while it was open";
  if (now->mounted) return "the file was mounted by itself while it was open";
  if (now->names > 1) return "the file got another name (a hard link) while it was open";
  return nullptr;
}

std::string to_string(file_identity const& id) {
  return fmt::format("sqlite:{}:{}:{}.{:09}", id.device, id.inode, id.born_s, id.born_ns);
}

bool is_gone(std::string const& identity, std::string const& path) noexcept try {
  auto const now = look_at(path);
  if (!now) return errno == ENOENT || errno == ENOTDIR;  // other errors tell nothing
  return now->mounted || now->names > 1 || to_string(now->id) != identity;
} catch (std::exception const&) {  // no memory
  return false;
}

}  // namespace rowlock::backend::sqlite
