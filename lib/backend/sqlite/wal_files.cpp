#include "backend/sqlite/wal_files.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

namespace rowlock::backend::sqlite {
namespace {

/// Device and inode of each open file; empty without /proc.
std::vector<struct stat> open_files_here() {
  std::vector<struct stat> all;
  std::error_code problem;
  std::filesystem::directory_iterator entry("/proc/self/fd", problem);
  for (std::filesystem::directory_iterator const end; !problem && entry != end; entry.increment(problem)) {
    struct stat found {};
    // By path: harmless if the descriptor is closed now.
    if (::stat(entry->path().c_str(), &found) == 0) all.push_back(found);
  }
  return all;
}

std::string path_of(sqlite3* db, char const* name) {
  char const* path = sqlite3_db_filename(db, name);  // without symbolic links, as the WAL's
  return path == nullptr ? "" : path;
}

bool says_wal_in_header(sqlite3* db, char const* name) {
  constexpr std::string_view magic("SQLite format 3\0", 16);
  constexpr std::size_t read_version = 19;
  sqlite3_file* file = nullptr;
  std::array<char, read_version + 1> header{};
  return sqlite3_file_control(db, name, SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK && file != nullptr &&
         file->pMethods != nullptr &&
         file->pMethods->xRead(file, header.data(), static_cast<int>(header.size()), 0) == SQLITE_OK &&
         std::string_view(header.data(), header.size()).starts_with(magic) && header[read_version] == 2;
}

/// A connection alone with the file (locking_mode = EXCLUSIVE, the VFS unix-excl) keeps the index in memory.
/// No other process can open the file then.
bool is_alone(sqlite3* db, char const* name) {
  int lock = SQLITE_LOCK_NONE;
  if (sqlite3_file_control(db, name, SQLITE_FCNTL_LOCKSTATE, &lock) == SQLITE_OK &&
      lock == SQLITE_LOCK_EXCLUSIVE)
    return true;
  char* vfs = nullptr;
  sqlite3_file_control(db, name, SQLITE_FCNTL_VFSNAME, &vfs);
  std::unique_ptr<char, decltype(&sqlite3_free)> const owned(vfs, &sqlite3_free);
  return owned && std::string_view(owned.get()).ends_with("unix-excl");
}

}  // namespace

// SQLite uses a WAL that is not empty, whatever the header says.
bool has_wal(sqlite3* db, char const* name) {
  if (says_wal_in_header(db, name)) return true;
  std::error_code none;
  auto const size = std::filesystem::file_size(path_of(db, name) + "-wal", none);
  return !none && size > 0;
}

wal_files::wal_files(sqlite3* db, char const* name) : index_is_a_file_(!is_alone(db, name)) {
  auto const path = path_of(db, name);
  for (std::size_t i = 0; auto const* end : {"-wal", "-shm"})
    files_.at(i++) = {path + end, identify(path + end)};
}

char const* wal_files::change() noexcept {
  for (auto const& one : files_) {
    auto const now = look_at(one.path);
    if ((now ? std::optional(now->id) : std::nullopt) != one.found)
      return "the file -wal or -shm beside it was removed or replaced while it was open";
    if (&one == &files_.front()) size_ = now ? now->size : 0;
  }
  return nullptr;
}

bool wal_files::outgrows_disk() const noexcept {
  struct statvfs disk {};
  if (::statvfs(files_.front().path.c_str(), &disk) != 0) return false;
  return size_ > (::geteuid() == 0 ? disk.f_bfree : disk.f_bavail) * disk.f_frsize;
}

bool wal_files::open_here() const {
  auto const open = open_files_here();
  return std::all_of(
      files_.begin(), index_is_a_file_ ? files_.end() : files_.begin() + 1, [&](file const& one) {
        return one.found && (open.empty() || std::any_of(open.begin(), open.end(), [&](auto const& f) {
                               return f.st_ino == one.found->inode && f.st_dev == one.found->device;
                             }));
      });
}

}  // namespace rowlock::backend::sqlite
