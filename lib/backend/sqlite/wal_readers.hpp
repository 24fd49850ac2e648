#pragma once
// Which processes read a database just now: its WAL can't be emptied before they are done.

#include <sys/types.h>

#include <string>
#include <vector>

namespace rowlock::backend::sqlite {

/// Locks that readers have on the index of the WAL, as far as the system tells (/proc/locks). It does not
/// tell of processes outside this container. Opens no file of SQLite's: to close it would drop this process's
/// locks.
struct wal_reader {
  pid_t process;
  unsigned place;  ///< which of SQLite's five places for readers

  bool operator==(wal_reader const&) const = default;
};
/// `file`: the database's path, without symbolic links. Empty also if nothing can be told.
std::vector<wal_reader> wal_readers(std::string const& file);

/// "process 812 (python3) and this process"; empty if there are none.
std::string to_string(std::vector<wal_reader> const&);

}  // namespace rowlock::backend::sqlite
