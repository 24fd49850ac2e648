#pragma once
// The program's own connection in the program's own transaction, and all that rowlock may do there.

#include <rowlock/export.hpp>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// A borrowed connection, for one thread at a time. It waits for replies as long as the program's own
/// statements would.
///
/// - Only commit(), commit_if() and rollback() end the transaction. No function begins one or changes a
///   setting.
/// - Errors are those of connection, but a lost connection is errc::unreachable: without a COMMIT nothing was
///   done.
/// - errc::transaction_ended: the server has rolled back the whole transaction.
/// - errc::snapshot_too_old: the row was changed after the transaction's snapshot.
class ROWLOCK_EXPORT caller_connection {
 public:
  virtual ~caller_connection() = default;

  virtual dialect const& sql() const noexcept = 0;
  virtual std::string describe() const = 0;

  /// @throws error not_in_transaction, transaction_ended (an earlier error aborted it), failed (unread
  /// replies), unreachable, unsupported (pipeline mode)
  virtual void expect_transaction() = 0;
  /// As expect_transaction(). Where the transaction itself is the lock: @throws error not_in_transaction also
  /// if it may not write yet.
  virtual void expect_writer() { expect_transaction(); }

  /// Runs one statement. A refused statement is undone, and the transaction goes on.
  virtual result execute(statement const&, std::span<value const> parameters) = 0;

  /// SAVEPOINT, RELEASE, ROLLBACK TO, for several statements. One level. InnoDB keeps the row locks.
  virtual void set_savepoint() = 0;
  virtual void release_savepoint() = 0;
  virtual void undo_to_savepoint() = 0;

  /// @throws error in_doubt, or conflict or transaction_ended if it was rolled back
  virtual void commit() = 0;

  /// Sends the guard of each lock and COMMIT in one round trip. COMMIT runs only if each guard finds its row.
  /// `locks` has the guards' parameters.
  /// @return false if nothing was committed and the transaction is unchanged: a guard failed, or this
  /// connection cannot do this. Single statements then tell the reason.
  /// @throws error as commit(), execute() and expect_transaction()
  virtual bool commit_if(statement_book const& /*book*/, std::span<std::vector<value> const> /*locks*/) {
    return false;
  }
  /// ROLLBACK, if a transaction is open. A lost connection has lost its transaction, too.
  virtual void rollback() noexcept = 0;
};

/// Our savepoints: one around a single statement, one around several.
inline constexpr std::string_view statement_savepoint = "rowlock_statement";
inline constexpr std::string_view savepoint = "rowlock_transaction";

}  // namespace rowlock::backend
