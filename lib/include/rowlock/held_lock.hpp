#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/guard_statement.hpp>
#include <rowlock/types.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace rowlock::holding {
class hold;
}
namespace rowlock::managing {
class manager;
}
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class asynchronously_taken;
class basic_mutex;
class basic_transaction;
class held_locks;
class lock_manager;
class once_run;
class semaphore;

/// A lock that was taken. Move-only. The destructor releases the lock, on any thread.
///
/// May outlive its lock_manager, which has released the lock by then. A handle that was moved from is like a
/// released one: valid() is false, release() does nothing, and the other members describe the former lock.
///
/// Exception safety: only extend(), set_note(), detach(), done(), guard_statements(), try_upgrade(),
/// downgrade() and loss_details() throw. The handle is then as it was, unless documented otherwise.
///
/// Thread safety: distinct handles are independent, also those of one recursive lock. Const members,
/// extend(), set_note() and release() of one handle may be called concurrently, so a callback of its
/// loss_token() may release it. All other calls must not overlap with any use of the handle.
class ROWLOCK_EXPORT held_lock {
 public:
  held_lock(held_lock&&) noexcept;
  held_lock& operator=(held_lock&&) noexcept;
  ~held_lock();  ///< calls release()

  std::string const& name() const noexcept;
  /// The random id of this grant, for SQL of the program's own. After a call of term() the lock is no longer
  /// handed to another thread without a round trip. To tell grants apart use token(). Empty after a release,
  /// if another thread of this process goes on with the term.
  term_id const& term() const noexcept;
  fencing_token token() const noexcept;
  owner_id const& owner() const noexcept;

  /// The latest time at which this process may act as the holder. It comes before the database can give the
  /// lock away. Conditions: clocks run at the same rate to within 1 %, and the database's clock does not step
  /// forward by more than half the margin (a tenth of the ttl). Moves forward with each renewal, and no more
  /// after a loss. In the past after a release, and once another owner can have the lock. Empty for row_lock.
  [[nodiscard]] std::optional<boot_time_point> trusted_until() const noexcept;

  /// True while the lock is held: not lost, not released, and trust has not ended.
  [[nodiscard]] bool valid() const noexcept;

  /// Triggered by a loss, if possible some time before trust ends. Callbacks run on a thread of the library
  /// that serves all locks of the manager: keep them short. Callbacks may release locks, and destroy handles,
  /// mutexes and the lock_manager, but must not wait for another lock.
  [[nodiscard]] std::stop_token loss_token() const noexcept;

  /// Empty while the lock is held, and after a release in time.
  [[nodiscard]] std::optional<loss_reason> loss() const noexcept;

  /// Details for logs. After a loss: the session that has the row locked, the time without a confirmed
  /// renewal, the last error. Before: the cause of failing renewals. Can be empty.
  /// @throws std::bad_alloc alone
  [[nodiscard]] std::string loss_details() const;

  /// Makes the term last at least `duration` from now: one round trip. Never shortens the term. The hard
  /// limit stays. @return false if the lock is lost or released
  /// @throws error if the database can't be asked. Trust is then as it was, but after errc::in_doubt the term
  /// can last longer.
  /// - errc::row_locked, errc::conflict: the term could not be extended just now.
  /// - errc::invalid_argument: `duration` is not between 1 ms and 366 days.
  /// - errc::unsupported: row_lock.
  [[nodiscard]] bool extend(std::chrono::milliseconds duration);

  /// Changes the note that `rowlock list` shows: one round trip. Waiting threads of this process can still
  /// see the former note. Do not call it while a transaction of the program requires this lock, and so has
  /// the row locked.
  /// @return false if the lock is lost or released
  /// @throws error if the database can't be asked. The note is then as it was, or unknown after
  /// errc::in_doubt.
  /// - errc::row_locked: a transaction had the row locked for too long.
  /// - errc::invalid_argument: the note is longer than 1024 bytes or not UTF-8.
  /// - errc::unsupported: row_lock.
  [[nodiscard]] bool set_note(std::string const& note);

  /// Ends the handle without a release, for work that goes on elsewhere. The lock stays taken until its term
  /// is over, whatever happens to this process. No thread renews the term or reports its end, so the work
  /// must end well before, or pass on the token. Sends nothing. Ignores mutex_options::at_least.
  /// @return the key for lock_manager::renew() and release(); empty if the lock was lost or released
  /// @throws error
  /// - errc::unsupported: row_lock, which ends with its session.
  /// - errc::invalid_argument: other handles of a recursive lock share it.
  /// - errc::closed: the lock_manager was destroyed.
  [[nodiscard]] std::optional<detached_lock> detach();

  /// For strategy once: releases the lock, and records that its work is done. Until `keep_for` from now is
  /// over, takes return acquire_status::done, with this owner, the time, and `result` as the note. After true
  /// the handle is released.
  ///
  /// Blocks while the database does not answer, as long as trust lasts, and for
  /// manager_options::reply_timeout at least. If the process dies before the record, or after errc::in_doubt,
  /// the work can be done again. Only basic_transaction::done() prevents that.
  /// @return false if the lock was lost or released before: nothing was recorded
  /// @throws error
  /// - errc::in_doubt: the record may exist. The lock is held as before.
  /// - errc::unsupported: another strategy.
  /// - errc::invalid_argument: `keep_for` is not between 1 ms and 100 years, or `result` is not UTF-8 of at
  ///   most 1024 bytes.
  [[nodiscard]] bool done(std::chrono::milliseconds keep_for, std::string const& result = {});

  /// Statements by which a transaction on any driver depends on this lock: what basic_transaction::require()
  /// is for the drivers that rowlock knows. Sends nothing.
  ///
  /// Run all of them in their order, one by one, in the program's own transaction, as its last statements
  /// before COMMIT. Read the reply of each before the next is sent. After any error of one send ROLLBACK, and
  /// read the command tag of COMMIT on PostgreSQL: an aborted transaction answers COMMIT with ROLLBACK, and
  /// no error. With several locks, take them in the order of their names.
  ///
  /// Promised: if all have succeeded, the term was never taken over, revoked or released before that
  /// transaction's end, whatever any clock did. The statements wait for another session that has the row
  /// locked, as long as the program's own lock time-out says. They do not prolong the term or move
  /// trusted_until().
  ///
  /// Not promised:
  /// - Why one failed: the lock is lost, or the transaction's snapshot is older than the take, or (PostgreSQL
  ///   above READ COMMITTED) than a renewal. Ask valid(), and begin the transaction again if it is true.
  /// - In autocommit they guard nothing. MariaDB refuses them there, and PostgreSQL what came by the simple
  ///   query protocol. MySQL and SQLite can't see it.
  /// - After ROLLBACK TO SAVEPOINT from before them they guard nothing: run them again.
  /// - On MySQL and MariaDB COMMIT after a failed one commits.
  ///
  /// The texts hold for this term, as long as the handle has the lock. From this call on a release can take
  /// longer, as for a lock that was required, and the lock is not handed to another thread without a round
  /// trip.
  /// @throws error
  /// - errc::lock_lost: valid() is false.
  /// - errc::unsupported: row_lock.
  [[nodiscard]] std::vector<guard_statement> guard_statements(
      placeholders style = placeholders::native) const;

  /// For a shared_mutex: turns a reader's lock into a writer's, if there is no other reader. One attempt, a
  /// few round trips. The new term has a higher token than all before, and a new loss_token(): ask for it
  /// again. Two readers that upgrade at once are both refused.
  /// @return false if there are other readers, waiters of this process, or a loss. Nothing was done.
  /// @throws error as mutex::try_acquire(), and
  /// - errc::unsupported: other locks.
  /// - errc::invalid_argument: this thread has taken it more than once.
  /// - errc::row_locked: a transaction has its row or the name's row locked, or the database may have
  ///   forgotten locks and grants none (acquire_status::quarantined).
  /// - errc::in_doubt, or errc::unreachable if the new grant came after trust had ended: the lock is lost, as
  ///   loss() says.
  [[nodiscard]] bool try_upgrade();
  /// For a shared_mutex: turns a writer's lock into a reader's, with no other writer in between. Otherwise as
  /// try_upgrade(). @return false if the lock is lost
  [[nodiscard]] bool downgrade();

  /// Releases the lock: one round trip. Blocks for manager_options::release_timeout at most. Returns released
  /// without effect on a second call, and on all but the last handle of a recursive lock.
  [[nodiscard]] release_result release() noexcept;

  /// As release(), but returns at once, and a thread of the library does it. Until the database has answered,
  /// no other call of this process gets the name. The destructor of a lock that was taken asynchronously
  /// does the same.
  void release_later() noexcept;
  /// As release(), but returns at once, and `where` calls `handler(std::exception_ptr, release_result)` with
  /// the result, and without an exception.
  /// @throws error(errc::closed), errc::forked, std::system_error, std::bad_alloc. Then nothing was released.
  template <std::invocable<std::exception_ptr, release_result> Handler>
  void async_release(executor const& where, Handler handler) {
    async_release_with(where, async_handler<release_result>::of(std::move(handler)));
  }
  /// The same, to be awaited by a coroutine, at once: until then the lock must not be moved or destroyed.
  async_result<release_result> async_release(std::reference_wrapper<executor const> where);
  /// The same with a completion token of Asio's: <rowlock/asio.hpp> defines it. Until the call begins, the
  /// lock must not be moved or destroyed.
  template <completion_token Token, class Asio>
  auto async_release(Token&& token);

  /// As extend(), but returns at once, and `where` calls `handler(std::exception_ptr, bool)` with what
  /// extend() would throw or return. The handle may be moved or destroyed meanwhile.
  /// @throws error(errc::closed), errc::forked, std::system_error, std::bad_alloc. Then nothing was asked.
  template <std::invocable<std::exception_ptr, bool> Handler>
  void async_extend(std::chrono::milliseconds duration, executor const& where, Handler handler) {
    extending(duration)(where, async_handler<bool>::of(std::move(handler)), {});
  }
  async_result<bool> async_extend(std::chrono::milliseconds duration,
                                  std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_extend(std::chrono::milliseconds duration, Token&& token);
  /// As set_note(), asynchronously: see async_extend(). The note is copied in the call.
  template <std::invocable<std::exception_ptr, bool> Handler>
  void async_set_note(std::string const& note, executor const& where, Handler handler) {
    noting(note)(where, async_handler<bool>::of(std::move(handler)), {});
  }
  async_result<bool> async_set_note(std::string const& note, std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_set_note(std::string const& note, Token&& token);
  /// As done(), asynchronously: see async_extend(). `result` is copied in the call.
  template <std::invocable<std::exception_ptr, bool> Handler>
  void async_done(std::chrono::milliseconds keep_for, std::string const& result, executor const& where,
                  Handler handler) {
    recording(keep_for, result)(where, async_handler<bool>::of(std::move(handler)), {});
  }
  async_result<bool> async_done(std::chrono::milliseconds keep_for, std::string const& result,
                                std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_done(std::chrono::milliseconds keep_for, std::string const& result, Token&& token);

  /// As try_upgrade(), but returns at once, and `where` calls
  /// `handler(std::exception_ptr, std::optional<held_lock>)` with the writer's lock. This handle is then as a
  /// released one: assign the new one to it. Without a lock, nothing was done, and this one is as before.
  ///
  /// If the new handle is dropped, the lock is released. The handle may be moved or destroyed meanwhile.
  /// @throws as async_extend()
  template <std::invocable<std::exception_ptr, std::optional<held_lock>> Handler>
  void async_try_upgrade(executor const& where, Handler handler) {
    exchanging(true)(where, async_handler<std::optional<held_lock>>::of(std::move(handler)), {});
  }
  async_result<std::optional<held_lock>> async_try_upgrade(std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_try_upgrade(Token&& token);
  /// As downgrade(), asynchronously: see async_try_upgrade().
  template <std::invocable<std::exception_ptr, std::optional<held_lock>> Handler>
  void async_downgrade(executor const& where, Handler handler) {
    exchanging(false)(where, async_handler<std::optional<held_lock>>::of(std::move(handler)), {});
  }
  async_result<std::optional<held_lock>> async_downgrade(std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_downgrade(Token&& token);

  /// `where` calls `handler(std::exception_ptr, std::optional<loss_reason>)` once the lock is lost, with the
  /// reason, or released, with none. Also with none if `stop` is triggered, or the lock_manager ends.
  ///
  /// Does not keep the lock: the handle may be moved, released or destroyed meanwhile. @throws as
  /// async_extend()
  template <std::invocable<std::exception_ptr, std::optional<loss_reason>> Handler>
  void async_lost(executor const& where, Handler handler, std::stop_token stop = {}) const {
    ending()(where, async_handler<std::optional<loss_reason>>::of(std::move(handler)), std::move(stop));
  }
  async_result<std::optional<loss_reason>> async_lost(std::reference_wrapper<executor const> where,
                                                      std::stop_token stop = {}) const;
  template <completion_token Token, class Asio>
  auto async_lost(Token&& token) const;

 private:
  bool exchange(bool for_writing);
  void end() noexcept;
  void async_release_with(executor, std::unique_ptr<async_handler<release_result>>);
  async_start<bool> extending(std::chrono::milliseconds) const;
  async_start<bool> noting(std::string const&) const;
  async_start<bool> recording(std::chrono::milliseconds keep_for, std::string const& result) const;
  async_start<std::optional<held_lock>> exchanging(bool for_writing) const;
  async_start<std::optional<loss_reason>> ending() const;
  friend class asynchronously_taken_all;
  friend class asynchronously_taken;
  friend class basic_mutex;
  friend class basic_transaction;
  friend class held_locks;
  friend class lock_manager;
  friend class once_run;
  friend class semaphore;
  held_lock(std::shared_ptr<managing::manager>, std::shared_ptr<holding::hold>) noexcept;

  std::shared_ptr<managing::manager> manager_;
  std::shared_ptr<holding::hold> hold_;
  std::atomic<bool> live_;  ///< not released by this handle
  bool later_ = false;      ///< it was taken asynchronously
};

/// The result of an attempt to take a lock: as std::optional<held_lock>, with a reason if empty.
///
/// Move-only. An object that was moved from is empty, with status() cancelled.
///
/// Preconditions: operator* and operator-> need a lock. value() checks.
///
/// Thread safety: distinct objects are independent. Const members may be called concurrently.
class acquisition {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): as std::optional's
  acquisition(held_lock lock) noexcept : lock_(std::move(lock)) {}
  /// @throws error(errc::invalid_argument) if why_not is acquire_status::acquired
  ROWLOCK_EXPORT acquisition(acquire_status why_not, std::optional<holder_info> holder);
  acquisition(acquisition&& other) noexcept
      : lock_(std::move(other.lock_)), status_(other.status_), holder_(std::move(other.holder_)) {
    other.say_empty();
  }
  /// First releases the lock of this object.
  acquisition& operator=(acquisition&& other) noexcept {
    if (this == &other) return *this;
    lock_ = std::move(other.lock_);
    status_ = other.status_;
    holder_ = std::move(other.holder_);
    other.say_empty();
    return *this;
  }
  ~acquisition() = default;

  explicit operator bool() const noexcept { return lock_.has_value(); }
  held_lock& operator*() & noexcept { return *lock_; }
  /// Moves the lock out. The acquisition is then empty.
  held_lock operator*() && noexcept { return take_out(); }
  held_lock const& operator*() const& noexcept { return *lock_; }
  held_lock* operator->() noexcept { return &*lock_; }
  held_lock const* operator->() const noexcept { return &*lock_; }
  /// @throws error(errc::not_acquired) without a lock. The message has status() and holder()
  ROWLOCK_EXPORT held_lock& value() &;
  ROWLOCK_EXPORT held_lock const& value() const&;
  ROWLOCK_EXPORT held_lock value() &&;  ///< moves it out

  acquire_status status() const noexcept { return status_; }
  /// The holder as last seen. Empty if a transaction without a visible owner had the row locked.
  std::optional<holder_info> const& holder() const noexcept { return holder_; }

 private:
  void say_empty() noexcept {
    lock_.reset();
    status_ = acquire_status::cancelled;
    holder_.reset();
  }
  held_lock take_out() noexcept {
    held_lock out(*std::move(lock_));
    say_empty();
    return out;
  }
  void require_lock() const;

  std::optional<held_lock> lock_;
  acquire_status status_ = acquire_status::acquired;
  std::optional<holder_info> holder_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
