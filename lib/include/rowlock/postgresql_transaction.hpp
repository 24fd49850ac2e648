#pragma once

#include <rowlock/version.hpp>

#include <rowlock/postgresql.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE {

/// The open transaction on a connection of the program's own, in blocking or non-blocking mode, but not in
/// pipeline mode.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::invalid_argument) if `connection` is null or `manager` is on another kind of
  /// database
  transaction(lock_manager& manager, PGconn* connection, transaction_options options = {});
};

/// Executes COMMIT and checks its result. PostgreSQL reports success for the COMMIT of an aborted
/// transaction: only the command tag says ROLLBACK.
/// @throws error
/// - errc::transaction_ended: the transaction was rolled back instead.
/// - errc::conflict: the same, after a serialization failure.
/// - errc::in_doubt: no reply came.
/// - errc::not_in_transaction.
///
/// If the wait for a synchronous standby is cancelled, a failover can lose the commit. The server reports
/// this only by a warning (SQLSTATE 01000) to the connection's own notice receiver.
ROWLOCK_EXPORT void execute_commit(PGconn* connection);

}  // namespace rowlock::postgresql::inline ROWLOCK_ABI_NAMESPACE
