#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

namespace soci {
class connection_pool;  // SOCI's own, so that its headers need not be included
}

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

/// Connections in the place of sessions of a SOCI connection pool, with SOCI's back end postgresql, mysql
/// (MySQL or MariaDB) or sqlite3. lib/doc/soci.md has the reasons.
///
/// A lock_manager takes sessions from the pool when it first needs them, and keeps them:
/// manager_options::connections (2 unless set), one for renewals, and with row_lock up to
/// manager_options::row_lock_connections (10). A pool with no more sessions leaves none to the program. The
/// last copy of the source gives them back, mostly in the lock_manager's destructor, and waits for the server
/// two seconds at most. If no session becomes free in half of a call's time, the error is
/// errc::too_many_connections.
///
/// rowlock ends the connection of such a session, and opens its own with the same parameters. A session goes
/// back with a new connection: without settings of rowlock, and without settings and prepared statements of
/// the program. If the server can't be reached then, it goes back without a connection, and its use throws a
/// soci_error until reconnect(). With sqlite3 the session's own connection stays, and rowlock opens another.
/// Calls end by their deadlines.
///
/// After fork() the child must not use the pool. The child's copies of the source leave it alone. The child
/// may make another pool, but on sqlite3 not if a lock_manager of the parent had sessions then
/// (errc::forked).
///
/// Thread safety: all members may be called concurrently, also while other threads use the pool.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// Takes a session of the pool and gives it back at once, to find its database.
  ///
  /// Preconditions: all sessions of `pool` have been opened, with parameters for one database. The pool
  /// outlives all copies of the source, also those in lock_managers, mutexes and held locks.
  /// @throws error
  /// - errc::invalid_argument: that session was not opened, or not with the pool's other parameters
  /// - errc::unsupported: another back end of SOCI
  /// - errc::too_many_connections: no session was free for five seconds
  explicit source(::soci::connection_pool& pool);
};

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
