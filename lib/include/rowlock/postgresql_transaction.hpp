#pragma once

#include <rowlock/version.hpp>

#include <rowlock/postgresql.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE {

/// The transaction that is open on a connection of the program's own, in blocking or non-blocking mode, but
/// not in pipeline mode.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  transaction(lock_manager& manager, PGconn* connection);
};

/// Runs COMMIT and looks at what became of it. PostgreSQL answers COMMIT of a transaction that an error has
/// aborted with success: only the command tag says ROLLBACK.
/// @throws error(errc::transaction_ended) if it was rolled back instead; conflict if that was a serialization
/// failure; in_doubt if no reply came; not_in_transaction
///
/// That somebody cancelled the wait for a synchronous standby, so that the commit may be lost at a failover,
/// the server says by a warning (SQLSTATE 01000) only, which goes to the connection's own notice receiver.
ROWLOCK_EXPORT void execute_commit(PGconn* connection);

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
