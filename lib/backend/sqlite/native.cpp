#include "backend/sqlite/native.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <optional>
#include <string_view>

namespace rowlock::backend::sqlite {
namespace {

bool begins_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

std::optional<rlim_t> size_limit() noexcept {
  rlimit now{};
  if (::getrlimit(RLIMIT_FSIZE, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return now.rlim_cur;
}

bool is_at_limit(sqlite3* db) noexcept {
  auto const limit = size_limit();
  char const* file = limit ? sqlite3_db_filename(db, "main") : nullptr;
  if (file == nullptr || *file == '\0') return false;
  for (char const* one : {file, sqlite3_filename_wal(file), sqlite3_filename_journal(file)})
    if (struct stat about{}; ::stat(one, &about) == 0 && static_cast<rlim_t>(about.st_size) >= *limit)
      return true;
  return false;
}

/// A file reached the size limit, for which SQLite has no code. A rollback can replace the system's error
/// number, so the files' lengths count, too.
bool is_too_long(sqlite3* db, int code) noexcept {
  if ((code & 0xff) != SQLITE_IOERR) return false;
  return sqlite3_system_errno(db) == EFBIG || (code == SQLITE_IOERR_WRITE && is_at_limit(db));
}

std::string too_long(std::string const& message) {
  auto const limit = size_limit();
  return fmt::format(
      "{}: no file may be longer here, and so nothing is written: raise `ulimit -f` ({}), or LimitFSIZE=",
      message, limit ? fmt::format("{} bytes here", *limit) : "no limit here");
}

std::string_view way_out(errc kind, int code) {
  if (is_damage(code))
    return "; the file is damaged: restore it, or move it away with the files -wal and -shm beside it, and "
           "`rowlock migrate up` makes a new one, which knows of no locks and tokens";
  switch (kind) {
    case errc::schema_missing:
      return "; `rowlock migrate validate` tells what is missing";
    case errc::read_only:
      return "; the file, its folder, and the files -wal and -shm beside it must be writable for this user";
    case errc::access_denied:
      return "; the file, its folder, and the files -wal and -shm beside it must be readable and writable "
             "for "
             "this user";
    case errc::storage_full:
      return "; make room on its file system";
    default:
      return "";
  }
}

}  // namespace

void leave_wal_at_close(sqlite3* db) noexcept {
  sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
}

errc classify(int code, std::string_view message) noexcept {
  // The open file is not the one at the path. Nothing was written.
  if (code == SQLITE_READONLY_DBMOVED) return errc::unreachable;
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
      return errc::row_locked;  // PROTOCOL: a race for the locks of the WAL, lost too often
    case SQLITE_INTERRUPT:
      return errc::conflict;  // nothing was done: a retry is safe
    case SQLITE_READONLY:
      return errc::read_only;
    case SQLITE_FULL:
      return errc::storage_full;
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return errc::access_denied;
    // SQLite could not open files that it needs (out of descriptors, a folder gone). Nothing was written.
    case SQLITE_CANTOPEN:
      return errc::unreachable;
    // A write or flush failed, perhaps the commit's. The result of a recovery is unknown.
    case SQLITE_IOERR:
      return errc::in_doubt;
    case SQLITE_ERROR:
      if (begins_with(message, "no such table") || begins_with(message, "no such column") ||
          message.find("has no column named") != message.npos)
        return errc::schema_missing;
      return errc::failed;
    default:
      return errc::failed;  // CORRUPT, NOTADB, CONSTRAINT, NOMEM, ...: a retry does not help
  }
}

bool is_damage(int code) noexcept {
  return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

error opening_error(sqlite3* db, std::string const& what, std::string const& where) {
  auto problem = statement_error(db, what, where);
  if (problem.reason() != errc::in_doubt) return problem;
  // -shm could not grow: an I/O error like any other to SQLite.
  int const cause = sqlite3_system_errno(db);
  auto const kind = cause == ENOSPC || cause == EDQUOT ? errc::storage_full : errc::unreachable;
  return error(
      kind,
      fmt::format("{}: {}: {}{}", where, what, sqlite3_errmsg(db), way_out(kind, problem.native_code())),
      what, "", problem.native_code());
}

error statement_error(sqlite3* db, std::string const& statement, std::string const& where) {
  int const code = sqlite3_extended_errcode(db);
  std::string const message = sqlite3_errmsg(db);
  if (is_too_long(db, code))
    return error(errc::storage_full, fmt::format("{}: {}: {}", where, statement, too_long(message)),
                 statement, "", code);
  auto kind = classify(code, message);
  // Opened read-only: SQLite can't make the files beside it.
  if ((code & 0xff) == SQLITE_CANTOPEN && sqlite3_db_readonly(db, "main") == 1) kind = errc::read_only;
  return error(kind, fmt::format("{}: {}: {}{}", where, statement, message, way_out(kind, code)), statement,
               "", code);
}

}  // namespace rowlock::backend::sqlite
