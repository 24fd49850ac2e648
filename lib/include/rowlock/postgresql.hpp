#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <functional>
#include <string>

typedef struct pg_conn PGconn;  // NOLINT(modernize-use-using): libpq's own declaration, so that <libpq-fe.h>
                                // need not be included

namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE {

/// Connections to a PostgreSQL server, version 13 or later.
class ROWLOCK_EXPORT source : public connection_source {
 public:
  /// `conninfo`: a URL (postgresql://...) or libpq keyword string. libpq's environment variables (PGHOST,
  /// ...), password file and service file work. rowlock removes two more words before. Does not connect yet.
  /// - `pooler=session` or `pooler=transaction` says how a pooler in between lends out the server's sessions.
  ///   Without this word, a detected pooler is assumed to lend them by the transaction.
  /// - `flush=off`: takes and renewals of locks that end with their process are not flushed, nor do they wait
  ///   for a synchronous standby. A crash forgets the last of them. Promised as with `flush=on`, the default:
  ///   then the database grants nothing until they would be over. Their holders lose them.
  /// @throws error(errc::invalid_argument) if `conninfo` can't be used
  explicit source(std::string conninfo);

  /// `open` is called for each new connection, from any thread, perhaps from several at once. An exception or
  /// a null pointer is errc::unreachable. rowlock ends the connection with PQfinish.
  ///
  /// Preconditions: nothing else uses the returned connection, which is in libpq's default blocking mode and
  /// outside a transaction.
  /// @throws error(errc::invalid_argument) if `open` is empty
  explicit source(std::function<PGconn*()> open);
};

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
