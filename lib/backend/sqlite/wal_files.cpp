#include "backend/sqlite/wal_files.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

namespace rowlock::backend::sqlite {
namespace {

/// Device and inode of each file that this process has open; empty if /proc is not there.
std::vector<struct stat> open_files_here() {
  std::vector<struct stat> all;
  std::error_code problem;
  std::filesystem::directory_iterator entry("/proc/self/fd", problem);
  for (std::filesystem::directory_iterator const end; !problem && entry != end; entry.increment(problem)) {
    struct stat found {};
    if (::fstat(std::atoi(entry->path().filename().c_str()), &found) == 0) all.push_back(found);
  }
  return all;
}

}  // namespace

wal_files::wal_files(std::string const& path)
    : files_{{{path + "-wal", identify(path + "-wal")}, {path + "-shm", identify(path + "-shm")}}} {}

char const* wal_files::change() const noexcept {
  for (auto const& one : files_)
    if (identify(one.path) != one.found)
      return "the file -wal or -shm beside it was removed or replaced while it was open";
  return nullptr;
}

bool wal_files::open_here() const {
  auto const open = open_files_here();
  if (open.empty()) return true;
  return std::all_of(files_.begin(), files_.end(), [&](file const& one) {
    return !one.found || std::any_of(open.begin(), open.end(), [&](auto const& f) {
      return f.st_ino == one.found->inode && f.st_dev == one.found->device;
    });
  });
}

}  // namespace rowlock::backend::sqlite
