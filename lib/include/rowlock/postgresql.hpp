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
  /// `conninfo`: a URL (postgresql://...) or libpq keyword string, passed to libpq as it is; environment
  /// variables (PGHOST, ...), password file and service file work as libpq documents. One word more is taken
  /// out before: `pooler=session` or `pooler=transaction`, how a pooler between lends out the server's
  /// sessions. Without it any pooler that is found there is taken for one that does so by the transaction.
  explicit source(std::string conninfo);

  /// `open` is called, from any thread, whenever another connection is needed, and returns one that nothing
  /// else uses, in libpq's default blocking mode and outside a transaction; rowlock ends it with PQfinish.
  explicit source(std::function<PGconn*()> open);
};

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
