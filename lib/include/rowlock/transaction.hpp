#pragma once
// What the transaction views of all back ends share: <rowlock/postgresql_transaction.hpp>,
// <rowlock/mysql_transaction.hpp>, <rowlock/sqlite_transaction.hpp>, <rowlock/soci_transaction.hpp>.

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

/// What a view may do on the program's connection.
struct transaction_options {
  /// Leave rowlock's statements prepared on the connection, so that the server does not plan them each time:
  /// all of them on PostgreSQL, that of execute_commit() on MariaDB. Elsewhere it changes nothing. Their
  /// names begin with rowlock_ and a random number of the process. They end with the session, or by the
  /// program's DEALLOCATE ALL, DISCARD ALL or DEALLOCATE PREPARE; they are then prepared again. Not for a
  /// connection through a pooler that changes the server's session: statements would stay behind in all of
  /// them.
  bool keep_prepared = false;
};

/// rowlock's view of the program's own transaction. The view owns nothing: it never begins, and it commits or
/// rolls back only in execute_commit(), which asks for that. It leaves no changed setting or open savepoint
/// behind, and no prepared statement (but see transaction_options::keep_prepared).
///
/// May be made once for a connection and used for one transaction after the other. LAST_INSERT_ID() and
/// lastval() are the program's and stay what they were. What was prepared under the empty name on a
/// PostgreSQL connection is not kept, as with any other statement.
///
/// Calls block as statements of the program's own do, with the program's own time limits. In addition they
/// ask the manager, for manager_options::reply_timeout at most.
///
/// Preconditions: the connection and the lock_manager exist as long as the view is used. A view that was
/// moved from may only be destroyed and assigned to.
///
/// Exception safety: a statement of rowlock's that fails leaves the transaction as it was. Where the database
/// itself has ended the transaction, the error says errc::transaction_ended: roll back and begin again.
///
/// Thread safety: as the connection's: one thread at a time.
///
/// Errors of all members: errc::not_in_transaction (in autocommit a lock would last as long as the
/// statement), transaction_ended, read_only (the transaction takes no writes), failed (replies of an earlier
/// statement have not been read; or what the database says), unreachable (the connection is gone, and with it
/// the transaction), schema_missing, access_denied; and whatever the manager's own sessions throw.
class ROWLOCK_EXPORT basic_transaction {
 public:
  basic_transaction(basic_transaction&&) noexcept;
  basic_transaction& operator=(basic_transaction&&) noexcept;
  ~basic_transaction();

  /// Makes the commit depend on the lock. It writes to the lock's row, so that whoever would take the lock
  /// over waits for the end of this transaction. The transaction commits only if the term was never taken
  /// over before that commit, however long the process slept and whatever any clock did. Call require() at
  /// any time before the COMMIT, and once more after ROLLBACK TO SAVEPOINT; at REPEATABLE READ call it first
  /// of all, before the snapshot ages. (On MySQL and MariaDB a DDL statement commits, and the guard ends with
  /// that.) require() does not move trusted_until(), and does not prolong the term.
  ///
  /// Several locks are required one by one, in the order of their names. Preconditions: no pointer is null.
  /// @throws error(errc::lock_lost) if the lock is lost: roll back. snapshot_too_old if this transaction sees
  /// the database as it was before the lock was taken, or renewed (PostgreSQL above READ COMMITTED):
  /// begin the transaction again; row_locked if another transaction that requires the same lock did not end
  /// in manager_options::reply_timeout; unsupported for row_lock; invalid_argument for a lock of another
  /// database
  void require(held_lock const& lock);
  template <std::same_as<held_lock>... More>
  void require(held_lock const& first, held_lock const& second, More const&... more) {
    held_lock const* const all[] = {&first, &second, &more...};
    require(std::span<held_lock const* const>(all));
  }
  void require(std::span<held_lock const* const> locks);

  /// For locks of strategy once: records, together with what this transaction writes, that the work for which
  /// the lock was taken is done. With COMMIT nobody can take the name until `keep_for` from now is over; with
  /// ROLLBACK nothing is recorded, and the lock is held as before. So data and record are there together or
  /// not at all, whoever dies when: this is what makes work exactly once. It is a guard, too, as require()
  /// is: call it after all require() of the same lock (or they are refused, invalid_argument), COMMIT
  /// plainly, and do so before the lock is given back. The lock's keeper hears of the COMMIT, without a loss.
  /// @param lock of strategy once
  /// @param keep_for from 1 ms to 100 years
  /// @param result for those who ask later, at most 1024 bytes of UTF-8
  /// @throws error as require(); lock_lost also if it was recorded before, by a COMMIT whose reply was lost;
  /// and as held_lock::done()
  void done(held_lock const& lock, std::chrono::milliseconds keep_for, std::string const& result = {});
  /// The same inside the work of run_once(), with the time that run_once() was told and, if `result` is
  /// empty, once_run::result(). run_once() then records nothing itself: commit before the work returns.
  void done(once_run& run, std::string const& result = {});

  /// For locks of a quorum, whose rows are in other databases: makes the commit depend on nobody having come
  /// here with a higher token of that name. Raises the highest token that was admitted for `name` in this
  /// database, in the program's own transaction. So what a holder writes that has lost its lock is refused as
  /// soon as a later holder has committed something here. Until then it passes: this is what a fencing token
  /// can do, and less than require(). Call it in each transaction that the lock protects; it waits for
  /// another one that has admitted a token of the name, as any INSERT of one key does.
  /// @throws error(errc::lock_lost) if a higher token was here: roll back; conflict, or snapshot_too_old, if
  /// another transaction has admitted one since this one's snapshot: begin it again; row_locked when the
  /// connection's own wait for a row was over; invalid_argument
  void admit(std::string const& name, fencing_token token);
  /// Refused: a transaction of one member's would pass while somebody else owns the lock by the other
  /// members.
  /// @throws error(errc::unsupported), always
  [[noreturn]] void require(quorum_lock const& lock);

  /// require() and COMMIT together: commits only if all of the locks are held. On PostgreSQL and MariaDB this
  /// takes one round trip if nobody else has one of the rows locked; otherwise it waits as require() does. On
  /// MySQL these are single statements.
  ///
  /// If anything is thrown, nothing was committed, but for errc::in_doubt. The transaction is then rolled
  /// back. (Only where the connection could take no statement at all, because it is in pipeline mode or
  /// replies have not been read, is it still open.) ROLLBACK again does no harm, but SQLite refuses it and
  /// PostgreSQL warns. Use it without SOCI's transaction object, as execute_commit() of the session.
  ///
  /// Above READ COMMITTED on PostgreSQL, a renewal that comes between the transaction's first statement and
  /// its end makes this fail with snapshot_too_old: there require() first of all and commit without a guard.
  ///
  /// Preconditions: no pointer is null.
  /// @throws error all that require() throws, with the transaction ended. in_doubt if the reply of COMMIT was
  /// lost: read back whether it was committed; conflict if the server has rolled back instead of committing;
  /// transaction_ended likewise; failed if a constraint that is checked at COMMIT does not hold;
  /// invalid_argument without any lock
  void execute_commit(held_lock const& lock);
  template <std::same_as<held_lock>... More>
  void execute_commit(held_lock const& first, held_lock const& second, More const&... more) {
    held_lock const* const all[] = {&first, &second, &more...};
    execute_commit(std::span<held_lock const* const>(all));
  }
  void execute_commit(std::span<held_lock const* const> locks);

  /// Takes row locks (strategy::row_lock) that last until COMMIT or ROLLBACK, one by one in the order of the
  /// names. Waits for each as long as the connection's own settings allow: lock_timeout,
  /// innodb_lock_wait_timeout.
  ///
  /// On SQLite the transaction itself is the lock, on all names. It must have been begun by BEGIN IMMEDIATE,
  /// or it is refused (errc::not_in_transaction).
  /// @throws error(errc::row_locked) when the wait was over; conflict after a deadlock; unsupported on
  /// PostgreSQL above READ COMMITTED, because the section would read what was before the lock;
  /// snapshot_too_old on MySQL and MariaDB, if this transaction's snapshot is older than the lock: begin
  /// again, and lock all names in one call, before anything is read, or use READ COMMITTED;
  /// strategy_mismatch, invalid_argument. What was locked before the error stays locked until the end of the
  /// transaction.
  void lock(std::string_view name) { lock({name}); }
  void lock(std::initializer_list<std::string_view> names) { lock(std::span(names.begin(), names.size())); }
  void lock(std::span<std::string_view const> names);

  /// As lock(), but waits for nobody. @return false if one of the names is locked by another transaction. The
  /// names before it, in the order of the names, then stay locked until the end of the transaction
  [[nodiscard]] bool try_lock(std::string_view name) { return try_lock({name}); }
  [[nodiscard]] bool try_lock(std::initializer_list<std::string_view> names) {
    return try_lock(std::span(names.begin(), names.size()));
  }
  [[nodiscard]] bool try_lock(std::span<std::string_view const> names) {
    return try_lock_for(names, std::chrono::nanoseconds(0));
  }

  /// As try_lock(), tried again until `timeout` has passed.
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

  /// Takes `name` with strategy unique_insert, as part of this transaction: the lock is in force with its
  /// COMMIT, and gone with its ROLLBACK. The lock lasts for `ttl` from now and is not renewed, because the
  /// manager can't see whether the COMMIT came. lock_manager::release() gives it back. Like any INSERT, the
  /// call waits for a transaction that has inserted the same name and has not ended yet, as long as the
  /// connection's own settings allow.
  /// @return term and token; empty if somebody holds the name. On SQLite the token, too, counts from the
  /// COMMIT only
  /// @throws error as lock(); invalid_argument for a ttl that is not between 100 ms and 366 days
  [[nodiscard]] std::optional<detached_lock> insert(std::string const& name, std::chrono::milliseconds ttl,
                                                    std::string const& note = {});

 protected:
  basic_transaction(lock_manager&, std::unique_ptr<backend::caller_connection>);

 private:
  static std::vector<guard::required_lock> known(std::span<held_lock const* const>);

  std::unique_ptr<guard::guarded_transaction> guarded_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
