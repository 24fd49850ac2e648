#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

namespace soci {
class connection_pool;  // SOCI's own, so that its headers need not be included
}

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

/// Connections in the place of sessions of a SOCI connection pool. The pool is on SOCI's back end postgresql,
/// mysql (a server of MySQL or MariaDB) or sqlite3; see lib/doc/soci.md.
///
/// A lock_manager takes sessions from the pool when it first needs them: as many as
/// manager_options::connections (2 unless set) for taking and giving back and one for renewals, and with
/// row_lock up to manager_options::row_lock_connections (10) more. It keeps them: a pool that has no more
/// than these leaves none to the program. The last copy of the source gives them back, mostly in the
/// lock_manager's destructor, and waits for the server two seconds at most. If no session becomes free in
/// half of a call's time, the error is errc::too_many_connections, with the numbers.
///
/// rowlock ends the connection of a session that it takes, and opens one of its own with the same parameters:
/// SOCI can't be told to stop waiting for a reply. What was set on the session does not count. Before a
/// session goes back it is connected anew, as SOCI's own reconnecting does: with nothing of rowlock's
/// settings, and nothing of what the program had set or prepared on it. If the server can't be reached then,
/// the session goes back without a connection: its use throws a soci_error until reconnect() was called. With
/// sqlite3 the session's own connection stays as it is, and rowlock's is opened beside it.
///
/// Calls end by their deadlines.
///
/// After fork() the child must not use the pool, as always with SOCI; the child's copies of the source leave
/// it alone. The child may make a pool of its own, but on sqlite3 not if a lock_manager of the parent's had
/// sessions then: errc::forked.
///
/// Thread safety: all members may be called from several threads at once, also while other threads use the
/// pool.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// Takes a session of the pool and gives it back at once, to see what it leads to.
  ///
  /// Preconditions: all sessions of `pool` have been opened, with parameters for one database. The pool lives
  /// longer than the last copy of the source. Copies are also in lock_managers and in what they made:
  /// mutexes, held locks.
  /// @throws error(errc::invalid_argument) if that session was not opened, or not with the pool's other
  /// parameters; errc::unsupported for other back ends of SOCI's; errc::too_many_connections if none was free
  /// for five seconds
  explicit source(::soci::connection_pool& pool);
};

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
