#pragma once
// The base of all back ends' transaction views, such as <rowlock/postgresql_transaction.hpp>.

#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/types.hpp>

#include <chrono>
#include <concepts>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::backend {
class caller_connection;
}
namespace rowlock::guard {
class guarded_transaction;
struct required_lock;
}  // namespace rowlock::guard

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class once_run;
class quorum_lock;

/// The options of a transaction view.
struct transaction_options {
  /// Leaves rowlock's statements prepared on the connection, to save planning: all statements on PostgreSQL,
  /// that of execute_commit() on MariaDB. No effect elsewhere. Their names begin with rowlock_ and a random
  /// number of the process. After the program's DEALLOCATE ALL, DISCARD ALL or DEALLOCATE PREPARE rowlock
  /// prepares again. Not for a pooler that changes the server's session: each would keep statements.
  bool keep_prepared = false;
};

/// rowlock's view of the program's own open transaction. Owns nothing, never begins a transaction, and ends
/// one only in execute_commit(). Leaves no changed setting, no open savepoint and (without
/// transaction_options::keep_prepared) no prepared statement behind.
///
/// One view may serve all transactions of its connection, one after the other. LAST_INSERT_ID() and lastval()
/// keep the program's values. PostgreSQL's unnamed prepared statement is replaced.
///
/// Calls block as the program's own statements do, within its own time limits, and also ask the manager, for
/// manager_options::reply_timeout at most.
///
/// Preconditions: the connection and the lock_manager exist while the view is used. A view that was moved
/// from may only be destroyed or assigned to.
///
/// Exception safety: if a statement of rowlock fails, the transaction is as it was. If the database itself
/// has ended the transaction, the error is errc::transaction_ended: roll back and begin again.
///
/// Thread safety: one thread at a time, as for the connection.
///
/// Errors of all members, besides those of the manager's own sessions:
/// - errc::not_in_transaction: in autocommit a lock would last only as long as the statement.
/// - errc::read_only: the transaction takes no writes.
/// - errc::failed: replies of an earlier statement have not been read, or the database refuses the statement.
/// - errc::unreachable: the connection is gone, and with it the transaction.
/// - errc::transaction_ended, errc::schema_missing, errc::access_denied.
class ROWLOCK_EXPORT basic_transaction {
 public:
  basic_transaction(basic_transaction&&) noexcept;
  basic_transaction& operator=(basic_transaction&&) noexcept;
  ~basic_transaction();

  /// Makes the commit depend on the lock, by a write to its row, so that a takeover waits for the end of this
  /// transaction. The transaction commits only if the term was never taken over before that commit, however
  /// long the process slept and whatever any clock did. require() does not prolong the term or move
  /// trusted_until().
  ///
  /// Call require() at any time before the COMMIT, and again after ROLLBACK TO SAVEPOINT. At REPEATABLE READ
  /// call it first, before the snapshot ages. On MySQL and MariaDB a DDL statement commits, and ends the
  /// guard.
  ///
  /// Several locks are required one by one, in the order of their names. Preconditions: no pointer is null.
  /// @throws error
  /// - errc::lock_lost: roll back.
  /// - errc::snapshot_too_old: this transaction's snapshot is older than the take, or (PostgreSQL above READ
  ///   COMMITTED) than the last renewal. Begin the transaction again.
  /// - errc::row_locked: another transaction that requires the same lock did not end within
  ///   manager_options::reply_timeout.
  /// - errc::unsupported: the strategy is row_lock.
  /// - errc::invalid_argument: the lock is of another database.
  void require(held_lock const& lock);
  template <std::same_as<held_lock>... More>
  void require(held_lock const& first, held_lock const& second, More const&... more) {
    held_lock const* const all[] = {&first, &second, &more...};
    require(std::span<held_lock const* const>(all));
  }
  void require(std::span<held_lock const* const> locks);

  /// For strategy once: records, together with this transaction's writes, that the work under the lock is
  /// done. After COMMIT no owner can take the name until `keep_for` from now is over. After ROLLBACK nothing
  /// is recorded, and the lock is held as before. Data and record exist together or not at all, whenever a
  /// process dies: the work is done exactly once.
  ///
  /// done() is also a guard, as require() is. Call it after all require() of the same lock (later ones are
  /// errc::invalid_argument). Then COMMIT, without tx.execute_commit(lock), before the lock is released. The
  /// process learns of the COMMIT, and reports no loss.
  /// @param lock of strategy once
  /// @param keep_for from 1 ms to 100 years
  /// @param result for later callers, at most 1024 bytes of UTF-8
  /// @throws error as require() and held_lock::done(). errc::lock_lost also if a COMMIT whose reply was lost
  /// has recorded it
  void done(held_lock const& lock, std::chrono::milliseconds keep_for, std::string const& result = {});
  /// As above, in the work of run_once(): with once_run::keep_for() and, if `result` is empty,
  /// once_run::result(). run_once() then records nothing itself. Commit before the work returns.
  void done(once_run& run, std::string const& result = {});

  /// For locks of a quorum, whose rows are in other databases: refuses a token below the highest that was
  /// admitted for `name` in this database. Otherwise raises that highest token, within this transaction. So a
  /// previous holder's writes are refused once a later holder has committed something here, but not before:
  /// less than require(). Call admit() in each transaction that the lock protects. admit() waits for another
  /// open transaction that has admitted a token of the name.
  /// @throws error
  /// - errc::lock_lost: a higher token was admitted. Roll back.
  /// - errc::conflict, errc::snapshot_too_old: another transaction has admitted a token since this one's
  ///   snapshot. Begin it again.
  /// - errc::row_locked: the connection's own wait for a row was over.
  /// - errc::invalid_argument: the name can't be used, or the token is not positive.
  void admit(std::string const& name, fencing_token token);
  /// One member's transaction would pass while another owner has the lock by the other members: use admit().
  void require(quorum_lock const& lock) = delete;

  /// require() and COMMIT together: commits only if all locks are held. On PostgreSQL and MariaDB this takes
  /// one round trip, unless another transaction has one of the rows locked: then it waits as require() does.
  /// On MySQL and SQLite the two are separate statements.
  ///
  /// If anything but errc::in_doubt is thrown, nothing was committed, and the transaction was rolled back.
  /// (Only if the connection takes no statement, in pipeline mode or with unread replies, is the transaction
  /// still open.) Another ROLLBACK is harmless, but SQLite refuses it and PostgreSQL warns: do not use SOCI's
  /// transaction object.
  ///
  /// On PostgreSQL above READ COMMITTED, a renewal between the transaction's first statement and its end
  /// causes snapshot_too_old. There call require() first, and commit without a guard.
  ///
  /// Preconditions: no pointer is null.
  /// @throws error as require(), with the transaction ended, and
  /// - errc::in_doubt: the reply of COMMIT was lost. Read back whether it was committed.
  /// - errc::conflict, errc::transaction_ended: the server has rolled back instead.
  /// - errc::failed: a constraint that is checked at COMMIT does not hold.
  /// - errc::invalid_argument: no lock was given.
  void execute_commit(held_lock const& lock);
  template <std::same_as<held_lock>... More>
  void execute_commit(held_lock const& first, held_lock const& second, More const&... more) {
    held_lock const* const all[] = {&first, &second, &more...};
    execute_commit(std::span<held_lock const* const>(all));
  }
  void execute_commit(std::span<held_lock const* const> locks);

  /// Takes row locks (strategy::row_lock) until COMMIT or ROLLBACK, one by one in the order of the names.
  /// Waits for each as long as the connection's own settings allow: lock_timeout, innodb_lock_wait_timeout.
  /// Names locked before an error stay locked.
  ///
  /// On SQLite the transaction itself is the lock, on all names. Begin it by BEGIN IMMEDIATE, or it is
  /// refused (errc::not_in_transaction).
  /// @throws error
  /// - errc::row_locked: the wait was over, or the database may have forgotten locks and grants none
  ///   (acquire_status::quarantined).
  /// - errc::conflict: a deadlock.
  /// - errc::unsupported: PostgreSQL above READ COMMITTED, where the section would read older data than the
  ///   lock.
  /// - errc::snapshot_too_old: on MySQL and MariaDB, this transaction's snapshot is older than the lock.
  ///   Begin again, and lock all names in one call before any read, or use READ COMMITTED.
  /// - errc::strategy_mismatch, errc::invalid_argument.
  void lock(std::string_view name) { lock({name}); }
  void lock(std::initializer_list<std::string_view> names) { lock(std::span(names.begin(), names.size())); }
  void lock(std::span<std::string_view const> names);

  /// As lock(), but never waits. @return false if another transaction has locked one of the names, or the
  /// database may have forgotten locks. The names before it, in the order of the names, stay locked
  [[nodiscard]] bool try_lock(std::string_view name) { return try_lock({name}); }
  [[nodiscard]] bool try_lock(std::initializer_list<std::string_view> names) {
    return try_lock(std::span(names.begin(), names.size()));
  }
  [[nodiscard]] bool try_lock(std::span<std::string_view const> names) {
    return try_lock_for(names, std::chrono::nanoseconds(0));
  }

  /// As try_lock(), repeated until `timeout` has passed.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::string_view name, std::chrono::duration<Rep, Period> const& timeout) {
    return try_lock_for(std::span(&name, 1), saturated_nanoseconds(timeout));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::initializer_list<std::string_view> names,
                                  std::chrono::duration<Rep, Period> const& timeout) {
    return try_lock_for(std::span(names.begin(), names.size()), saturated_nanoseconds(timeout));
  }
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::span<std::string_view const> names,
                                  std::chrono::duration<Rep, Period> const& timeout) {
    return try_lock_for(names, saturated_nanoseconds(timeout));
  }
  [[nodiscard]] bool try_lock_for(std::span<std::string_view const> names, std::chrono::nanoseconds timeout);

  /// Takes `name` with strategy unique_insert in this transaction: the lock is in force from its COMMIT, and
  /// gone after its ROLLBACK. The lock lasts for `ttl` from now without renewal. lock_manager::release()
  /// releases it. Like any INSERT, the call waits for an open transaction that has inserted the name.
  /// @return term and token; empty if another owner holds the name. On SQLite the token, too, counts only
  /// from the COMMIT
  /// @throws error as lock(). errc::invalid_argument for a ttl outside of 100 ms to 366 days
  [[nodiscard]] std::optional<detached_lock> insert(std::string const& name, std::chrono::milliseconds ttl,
                                                    std::string const& note = {});

 protected:
  basic_transaction(lock_manager&, std::unique_ptr<backend::caller_connection>);

 private:
  static std::vector<guard::required_lock> known(std::span<held_lock const* const>);

  std::unique_ptr<guard::guarded_transaction> guarded_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
