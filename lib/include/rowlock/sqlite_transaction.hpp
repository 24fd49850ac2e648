#pragma once

#include <rowlock/version.hpp>

#include <rowlock/sqlite.hpp>
#include <rowlock/transaction.hpp>

namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE {

/// The transaction that is open on a connection of the program's own. rowlock's tables are in the
/// connection's main database, or in one that is attached to it. Data that the lock is to protect should be
/// in the same file: SQLite in WAL mode commits several files one by one.
class ROWLOCK_EXPORT transaction : public basic_transaction {
 public:
  /// @throws error(errc::invalid_argument) if `connection` is null or `manager` is on another kind of
  /// database
  transaction(lock_manager& manager, sqlite3* connection);
};

/// Executes COMMIT.
/// @throws error(errc::row_locked) if others still read (not in WAL mode): the transaction is still open, try
/// again; transaction_ended if the transaction was rolled back; in_doubt after a failed write;
/// not_in_transaction
ROWLOCK_EXPORT void execute_commit(sqlite3* connection);

}  // namespace rowlock::sqlite::inline ROWLOCK_ABI_NAMESPACE
