#include "backend/sqlite/open.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <rowlock/types.hpp>
#include <system_error>

#include "backend/sqlite/process.hpp"

namespace rowlock::backend::sqlite {
namespace {

std::string reason(int problem) { return std::generic_category().message(problem); }

std::string for_this_user() {
  return fmt::format(
      "the file must be readable and writable for this user (uid {}), its folder too, and all above it "
      "passable",
      ::geteuid());
}

[[noreturn]] void throw_missing(std::string const& path, int problem) {
  switch (problem) {
    case ENOENT:
      throw error(
          errc::schema_missing,
          fmt::format("no such SQLite file '{0}': `rowlock --db sqlite:{0} migrate up` makes it", path), "",
          "", problem);
    case EACCES:
    case EPERM:
      throw error(
          errc::access_denied,
          fmt::format("SQLite file '{}' can't be reached: {}; {}", path, reason(problem), for_this_user()),
          "", "", problem);
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
      throw error(errc::invalid_argument,
                  fmt::format("'{}' can't be an SQLite file: {}", path, reason(problem)), "", "", problem);
    default:
      throw error(errc::unreachable,
                  fmt::format("SQLite file '{}' can't be reached: {}", path, reason(problem)), "", "",
                  problem);
  }
}

file_identity identify_or_throw(std::string const& path) {
  if (auto const found = identify(path)) return *found;
  throw_missing(path, errno);
}

// To open a device or a pipe can have any effect, and take any time.
void refuse_irregular(std::string const& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode)) return;
  throw error(errc::invalid_argument,
              fmt::format("'{}' is {}, not an SQLite file", path,
                          S_ISDIR(found.st_mode) ? "a folder" : "a device, pipe or socket"));
}

database open_native(std::string const& path) {
  sqlite3* native = nullptr;
  int const code =
      sqlite3_open_v2(path.c_str(), &native, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  database owned(native);
  if (code == SQLITE_OK) {
    // No view or trigger of a hostile file can call a function with effects.
    sqlite3_db_config(native, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    return owned;
  }
  int const problem = native == nullptr ? ENOMEM : sqlite3_system_errno(native);
  if (::access(path.c_str(), R_OK) != 0) throw_missing(path, errno);
  throw error(errc::unreachable,
              fmt::format("SQLite file '{}' can't be opened: {}{}", path, sqlite3_errstr(code),
                          problem == 0 ? std::string{} : ": " + reason(problem)),
              "", "", code);
}

[[noreturn]] void throw_not_made(std::string const& path, int problem) {
  switch (problem) {
    case ENOENT:
      throw error(errc::invalid_argument,
                  fmt::format("SQLite file '{}' can't be made: its folder does not exist", path), "", "",
                  problem);
    case EACCES:
    case EPERM:
      throw error(errc::access_denied,
                  fmt::format("SQLite file '{}' can't be made: {}; its folder must be writable for this user "
                              "(uid {})",
                              path, reason(problem), ::geteuid()),
                  "", "", problem);
    case EROFS:
      throw error(errc::read_only, fmt::format("SQLite file '{}' can't be made: {}", path, reason(problem)),
                  "", "", problem);
    case ENOSPC:
    case EDQUOT:
      throw error(errc::storage_full,
                  fmt::format("SQLite file '{}' can't be made: {}; make room on its file system", path,
                              reason(problem)),
                  "", "", problem);
    default:
      throw_missing(path, problem);
  }
}

struct remove_at_end {
  std::string const& path;
  ~remove_at_end() { ::unlink(path.c_str()); }
};

// Never replaces a file: errno is EEXIST then. Some file systems have only one of these ways. link() makes
// two names for a moment, and such a file is refused.
bool put_in_place(std::string const& from, std::string const& to) noexcept {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno == EEXIST) return false;
  return ::link(from.c_str(), to.c_str()) == 0;
}

}  // namespace

std::string checked_path(std::string const& path) {
  if (path.empty() || path == ":memory:")
    throw error(
        errc::unsupported,
        fmt::format(
            "SQLite database '{}' would be in memory, private to one connection, and so exclude no process: "
            "name a file",
            path));
  if (path.find('\0') != std::string::npos)
    throw error(errc::invalid_argument, "the path of an SQLite file must not contain U+0000");
  std::error_code problem;
  auto const absolute = std::filesystem::absolute(path, problem);
  if (problem)
    throw error(errc::unreachable, fmt::format("SQLite file '{}': the current folder is gone", path));
  return absolute.string();
}

file_identity identify_open(sqlite3* db, std::string const& path) {
  auto const found = look_at(path);
  if (!found) throw_missing(path, errno);
  int moved = 0;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved != 0)
    throw error(errc::unreachable, fmt::format("SQLite file '{}' was replaced while it was opened", path));
  // After the open, for which an overlay file system makes a copy with one name.
  if (auto const why = other_name(*found, path); !why.empty()) throw error(errc::unsupported, why);
  return found->id;
}

opened open_existing(std::string const& path) {
  // On an overlay file system the first open for writing can change the identity.
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto const before = identify_or_throw(path);
    refuse_irregular(path);
    auto native = open_native(path);
    if (identify_open(native.get(), path) == before) return {std::move(native), before};
  }
  throw error(errc::unreachable, fmt::format("SQLite file '{}' was replaced while it was opened", path));
}

void create_if_missing(std::string const& path) {
  if (identify(path)) return;
  close_inherited();
  inside const sqlite;
  // Made beside, and put in place when whole: no process sees a file without a WAL. Closed before SQLite has
  // locks on it, which closing would drop.
  static std::atomic<unsigned> count = 0;
  auto const made =
      fmt::format("{}.{}-{}-{}", path, ::getpid(), boot_clock::now().time_since_epoch().count(), ++count);
  // The umask decides the mode. SQLite copies it to the files beside.
  int const fd = ::open(made.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) throw_not_made(path, errno);
  ::close(fd);
  remove_at_end const scratch{made};
  auto db = open_native(made);
  if (sqlite3_exec(db.get(), "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr) != SQLITE_OK)
    throw statement_error(db.get(), "journal mode", "sqlite:" + path);
  db.reset();
  if (put_in_place(made, path) || errno == EEXIST) return;
  throw_not_made(path, errno);
}

}  // namespace rowlock::backend::sqlite
