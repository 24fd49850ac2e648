#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

namespace soci {
class connection_pool;  // SOCI's own, so that its headers need not be included
}

namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE {

/// Connections to the database that a SOCI connection pool leads to, with SOCI's back end postgresql, mysql
/// (MySQL or MariaDB) or sqlite3. The connections are rowlock's own, as with postgresql::source,
/// mysql::source and sqlite::source, and so are their number, deadlines and errors. No session of the pool is
/// kept. lib/doc/soci.md has the reasons, and says which parts of a connect string are read.
///
/// After fork() on sqlite3 the child can't use rowlock if a copy of this source was alive then
/// (errc::forked).
///
/// Thread safety: all members may be called concurrently, the constructor also while other threads use the
/// pool.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// Takes a session of the pool and gives it back at once, unchanged, to read its parameters. The pool may
  /// be destroyed afterwards.
  ///
  /// Preconditions: all sessions of `pool` have been opened, with parameters for one database.
  /// @throws error
  /// - errc::invalid_argument: that session was not opened, or its connect string says what can't be.
  /// - errc::unsupported: another back end of SOCI, or a database in memory.
  /// - errc::too_many_connections: no session was free for five seconds.
  /// - errc::forked: SQLite can't be used in this child.
  explicit source(::soci::connection_pool& pool);
};

}  // namespace rowlock::soci::inline ROWLOCK_ABI_NAMESPACE
