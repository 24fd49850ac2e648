#pragma once

#include <rowlock/version.hpp>

#include <rowlock/sqlite.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE {

/// The open transaction on a connection of the program's own. rowlock's tables are in the connection's main
/// database, or in an attached one. Keep the protected data in the same file: SQLite in WAL mode commits
/// several files one by one.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::invalid_argument) if `connection` is null or `manager` is on another kind of
  /// database
  transaction(lock_manager& manager, sqlite3* connection);
};

/// Executes COMMIT.
/// @throws error
/// - errc::row_locked: other connections still read (not in WAL mode). The transaction is still open: try
///   again.
/// - errc::transaction_ended: the transaction was rolled back.
/// - errc::in_doubt: a write failed.
/// - errc::not_in_transaction.
ROWLOCK_EXPORT void execute_commit(sqlite3* connection);

}  // namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE
