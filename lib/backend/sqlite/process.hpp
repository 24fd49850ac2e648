#pragma once
// What SQLite keeps per process, and fork() breaks.
//
// SQLite counts its POSIX locks per process and file. A forked child inherits the counts but not the
// locks: a connection that it opens to a file that its parent had open believes that the process has the
// shared lock already. Another program then takes itself for the last user, deletes the WAL, and what the
// child commits goes into the deleted file: seen, with two owners of one lock. So before its first connection
// the child closes the inherited ones.

#include <rowlock/export.hpp>

struct sqlite3;

namespace rowlock::backend::sqlite {

/// While it lives, the calling thread may be inside SQLite: a child that is forked now can't use SQLite at
/// all, because a mutex may have been copied locked.
class inside {
 public:
  inside() noexcept;
  ~inside();
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
};

/// Whose connection it is.
class connection_owner {
 public:
  /// Closes it, by any thread, if its files were replaced and nobody uses it just now. @return whether it did
  virtual bool close_if_replaced() noexcept = 0;

 protected:
  ~connection_owner() = default;
};

/// Connections that a later child would inherit. Called inside.
void remember(sqlite3*, connection_owner&);
void forget(sqlite3*) noexcept;

/// Closes those of this process whose files were replaced while they were open, unless they are in use: a new
/// connection to the same file would share the old index of the WAL with them. Called inside.
void close_replaced() noexcept;

/// While it lives this process has connections to SQLite files that rowlock could not close in a forked
/// child: those of the program's own pool. A child that is forked now can't use SQLite at all.
class ROWLOCK_EXPORT programs_connection {
 public:
  programs_connection() noexcept;
  ~programs_connection();
  programs_connection(programs_connection const&) = delete;
  programs_connection& operator=(programs_connection const&) = delete;
};

/// An open wait queue file. fork() copies its locks, so that they would outlive their owner: the child closes
/// it at once. If there are too many, that child keeps them until it ends.
void remember_queue(int fd) noexcept;
void forget_queue(int fd) noexcept;

/// In a forked child: closes what it inherited, without a checkpoint; harmless to the parent, whose locks
/// belong to its process. Elsewhere does nothing. @throws error(errc::forked) if a thread of the parent was
/// inside SQLite, or the parent had a programs_connection
ROWLOCK_EXPORT void close_inherited();

}  // namespace rowlock::backend::sqlite
