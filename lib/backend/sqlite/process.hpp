#pragma once
// State that SQLite keeps per process, and that fork() breaks.
//
// SQLite counts its POSIX locks per process and file. A forked child inherits the counts but not the locks.
// If the child opens a file that its parent had open, SQLite believes that the process has the shared lock
// already. Another program then takes itself for the last user and deletes the WAL. The child's commits go
// into the deleted file: seen, with two owners of one lock. So the child closes the inherited connections
// before it opens its first one.

#include <rowlock/export.hpp>

struct sqlite3;

namespace rowlock::backend::sqlite {

/// Marks the calling thread as inside SQLite while it lives. A child that is forked now can't use SQLite at
/// all: fork() can copy a mutex locked.
class inside {
 public:
  inside() noexcept;
  ~inside();
  inside(inside const&) = delete;
  inside& operator=(inside const&) = delete;
};

/// The owner of a connection.
class connection_owner {
 public:
  /// Closes it if its files were replaced and no thread uses it now. Any thread may call this. @return
  /// whether it did
  virtual bool close_if_replaced() noexcept = 0;

 protected:
  ~connection_owner() = default;
};

/// Connections that a later child would inherit. Precondition: an `inside` lives.
void remember(sqlite3*, connection_owner&);
void forget(sqlite3*) noexcept;

/// Closes this process's connections whose files were replaced, unless a thread uses them. A new connection
/// to the same file would share the old index of the WAL with them. Precondition: an `inside` lives.
void close_replaced() noexcept;

/// Lives while the process has SQLite connections that rowlock could not close in a forked child: those of
/// the program's own pool. A child that is forked now can't use SQLite at all.
class ROWLOCK_EXPORT programs_connection {
 public:
  programs_connection() noexcept;
  ~programs_connection();
  programs_connection(programs_connection const&) = delete;
  programs_connection& operator=(programs_connection const&) = delete;
};

/// An open wait queue file. Its locks would outlive their owner in a forked child, so the child closes it at
/// once. The child keeps files beyond 256 until it ends.
void remember_queue(int fd) noexcept;
void forget_queue(int fd) noexcept;

/// In a forked child: closes the inherited connections, without a checkpoint. The parent's locks belong to
/// its process, and stay. Elsewhere does nothing. @throws error(errc::forked) if a thread of the parent was
/// inside SQLite, or the parent had a programs_connection
ROWLOCK_EXPORT void close_inherited();

}  // namespace rowlock::backend::sqlite
