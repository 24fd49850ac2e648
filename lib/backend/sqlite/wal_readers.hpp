#pragma once
// The processes that read a database now: its WAL can't be emptied before they end.

#include <sys/types.h>

#include <string>
#include <vector>

namespace rowlock::backend::sqlite {

struct wal_reader {
  pid_t process;
  unsigned place;  ///< which of SQLite's five places for readers

  bool operator==(wal_reader const&) const = default;
};
/// From /proc/locks, which does not show processes outside this container. `file`: the database's path,
/// without symbolic links. Empty also if the system does not tell. Opens no file of SQLite's: to close it
/// would drop this process's locks.
std::vector<wal_reader> wal_readers(std::string const& file);

/// "process 812 (python3) and this process"; empty if there are none.
std::string to_string(std::vector<wal_reader> const&);

}  // namespace rowlock::backend::sqlite
