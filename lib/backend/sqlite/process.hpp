#pragma once
// SQLite counts its POSIX locks per process and file. A forked child inherits the counts but not the locks.
// If it opens a file that its parent had open, SQLite believes that it has the shared lock already. Another
// program then takes itself for the last user and deletes the WAL. The child's commits go into the deleted
// file: seen, with two owners of one lock. So the child first closes the inherited connections.

#include <rowlock/export.hpp>

struct sqlite3;

namespace rowlock::backend::sqlite {

/// Lives while the calling thread can be inside SQLite. A child forked meanwhile can't use SQLite at all:
/// fork() can copy a mutex locked.
class inside {
 public:
  inside() noexcept;
  ~inside();
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
};

class connection_owner {
 public:
  /// Closes it if its files were replaced and no thread uses it. Any thread may call this. @return whether it
  /// did
  virtual bool close_if_replaced() noexcept = 0;

 protected:
  ~connection_owner() = default;
};

/// Connections that a child would inherit. Precondition: an `inside` lives.
void remember(sqlite3*, connection_owner&);
void forget(sqlite3*) noexcept;

/// Closes unused connections of this process whose files were replaced. A new one would share their old index
/// of the WAL. Precondition: an `inside` lives.
void close_replaced() noexcept;

/// Lives while a source stands beside a pool of the program's, whose SQLite connections rowlock could not
/// close in a forked child. A child forked meanwhile can't use SQLite at all.
class ROWLOCK_EXPORT programs_connection {
 public:
  programs_connection() noexcept;
  ~programs_connection();
  programs_connection(programs_connection const&) = delete;
  programs_connection& operator=(programs_connection const&) = delete;
};

/// An open wait queue file. A forked child closes it at once: its locks would outlive their owner. Of more
/// than 256 files the child keeps the rest until it ends.
void remember_queue(int fd) noexcept;
void forget_queue(int fd) noexcept;

/// In a forked child: closes the inherited connections, without a checkpoint. The parent keeps its locks.
/// Elsewhere does nothing. @throws error(errc::forked) if a thread of the parent was inside SQLite, or the
/// parent had a programs_connection
ROWLOCK_EXPORT void close_inherited();

}  // namespace rowlock::backend::sqlite
