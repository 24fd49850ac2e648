#pragma once
// A connection of the program's own, in the program's own transaction: only what may be done there.

#include <rowlock/export.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// Borrowed: apart from commit(), commit_if() and rollback(), nothing here begins, commits or rolls back the
/// transaction, and nothing changes a setting.
/// Waits for replies as long as the program's own statements would. Used by one thread at a time.
///
/// Errors: what connection throws, but a lost connection is always errc::unreachable: without a COMMIT
/// nothing was done. errc::transaction_ended where the server has rolled back all of the transaction;
/// errc::snapshot_too_old where SQLite says so.
class ROWLOCK_EXPORT caller_connection {
 public:
  virtual ~caller_connection() = default;

  virtual dialect const& sql() const noexcept = 0;
  virtual std::string describe() const = 0;  ///< for messages

  /// @throws error not_in_transaction, transaction_ended (an earlier error has aborted it), failed (replies
  /// have not been read to their end), unreachable, unsupported (pipeline mode)
  virtual void expect_transaction() = 0;
  /// Where the transaction itself is the lock: @throws error not_in_transaction, too, if it may not write
  /// yet. Elsewhere as expect_transaction().
  virtual void expect_writer() { expect_transaction(); }

  /// One statement. If it is refused, what it has done is undone, and the transaction goes on.
  virtual result execute(statement const&, std::span<value const> parameters) = 0;

  /// Begins, keeps or undoes several statements: SAVEPOINT, RELEASE, ROLLBACK TO. One level. (Row locks of
  /// InnoDB's stay.)
  virtual void set_savepoint() = 0;
  virtual void release_savepoint() = 0;
  virtual void undo_to_savepoint() = 0;

  /// The statement COMMIT. @throws error in_doubt; conflict and transaction_ended if it was rolled back
  virtual void commit() = 0;

  /// The guard of each lock and COMMIT, in one round trip: COMMIT is run only if each guard has found its
  /// row. `book` has the statements, `locks` the parameters of each guard.
  /// @return false if nothing was committed, and the transaction is as it was: a guard found nothing or was
  /// refused, or this connection has no such way. The same is then to be done by single statements, which
  /// tell the reason.
  /// @throws error as commit(), execute() and expect_transaction()
  virtual bool commit_if(statement_book const& /*book*/, std::span<std::vector<value> const> /*locks*/) {
    return false;
  }
  /// ROLLBACK, if a transaction is open. What can't be rolled back because the connection is lost is gone
  /// with it.
  virtual void rollback() noexcept = 0;
};

/// The names of our savepoints: one is set around a single statement, one around several.
inline constexpr std::string_view statement_savepoint = "rowlock_statement";
inline constexpr std::string_view savepoint = "rowlock_transaction";

}  // namespace rowlock::backend
