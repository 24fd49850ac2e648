#include "backend/sqlite/file_identity.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace rowlock::backend::sqlite {

std::optional<file_identity> identify(std::string const& path) noexcept {
  struct statx found {};
  if (::statx(AT_FDCWD, path.c_str(), AT_STATX_SYNC_AS_STAT, STATX_INO | STATX_BTIME, &found) != 0) return {};
  file_identity id{::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino, 0, 0};
  if ((found.stx_mask & STATX_BTIME) != 0) {
    id.born_s = found.stx_btime.tv_sec;
    id.born_ns = found.stx_btime.tv_nsec;
  }
  return id;
}

std::string to_string(file_identity const& id) {
  return fmt::format("sqlite:{}:{}:{}.{:09}", id.device, id.inode, id.born_s, id.born_ns);
}

}  // namespace rowlock::backend::sqlite
