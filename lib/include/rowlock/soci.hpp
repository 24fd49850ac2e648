#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

namespace soci {
class connection_pool;  // SOCI's own, so that its headers need not be included
}

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

/// Connections in the place of sessions of a SOCI connection pool, which is on SOCI's back end postgresql,
/// mysql (a server of MySQL or MariaDB) or sqlite3; see lib/doc/soci.md.
///
/// A lock_manager takes sessions of the pool when it first needs them: as many as
/// manager_options::connections (2 unless set) for taking and giving back and one for renewals, and with
/// row_lock up to manager_options::row_lock_connections (10) more. It keeps them: a pool that has no more
/// than these leaves none to the program. The last copy of the source gives them back, which is mostly in the
/// lock_manager's destructor, and waits for the server two seconds at most. If none becomes free in half of a
/// call's time, that is errc::too_many_connections, with the numbers.
///
/// A session that is taken has its connection ended, and rowlock opens one of its own with the same
/// parameters; SOCI can't be told to stop waiting for a reply, and what was set on the session does not
/// count. Before it goes back it is connected anew, as SOCI's own reconnecting does: with nothing of
/// rowlock's settings, and nothing of what the program had set or prepared on it. If the server can't be
/// reached then, it goes back without a connection: its use throws a soci_error until reconnect() was called.
/// With sqlite3 the session's own connection stays as it is, and rowlock's is opened beside it.
///
/// Calls end by their deadlines.
///
/// Thread safety: all members, also while other threads use the pool. After fork() the child must not use the
/// pool, as SOCI has it; the child's copies of the source leave it alone. It may make a pool of its own, but
/// on sqlite3 not if a lock_manager of the parent's had sessions then: errc::forked.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `pool`: all its sessions have been opened, with parameters for one database. It must live longer than
  /// the last copy of the source, and that is also in lock_managers and whatever they made: mutexes, held
  /// locks. Takes a session and gives it back at once, to see what it leads to.
  /// @throws error(errc::invalid_argument) if that session was not opened, or not with the pool's other
  /// parameters; errc::unsupported for other back ends of SOCI's; errc::too_many_connections if none was free
  /// for five seconds
  explicit source(::soci::connection_pool& pool);
};

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
