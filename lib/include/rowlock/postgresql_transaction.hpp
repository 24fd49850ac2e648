#pragma once

#include <rowlock/version.hpp>

#include <rowlock/postgresql.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE {

/// The transaction that is open on a connection of the program's own, in blocking or non-blocking mode, but
/// not in pipeline mode.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::invalid_argument) if `connection` is null or `manager` is on another kind of
  /// database
  transaction(lock_manager& manager, PGconn* connection, transaction_options options = {});
};

/// Executes COMMIT and looks at what became of it. PostgreSQL reports success for the COMMIT of a transaction
/// that an error has aborted: only the command tag says ROLLBACK.
/// @throws error(errc::transaction_ended) if the transaction was rolled back instead; conflict if that was a
/// serialization failure; in_doubt if no reply came; not_in_transaction
///
/// If somebody cancels the wait for a synchronous standby, the commit may be lost at a failover. The server
/// says so by a warning (SQLSTATE 01000) only, which goes to the connection's own notice receiver.
ROWLOCK_EXPORT void execute_commit(PGconn* connection);

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
