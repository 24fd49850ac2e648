#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/options.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class lock_manager;

/// The base of mutex and recursive_mutex. Meets TimedLockable: works with std::scoped_lock, std::unique_lock.
///
/// Errors of every member that takes a lock:
/// - Errors that are not retryable are thrown at once.
/// - Retryable errors (the database is unreachable, a reply was lost) are ridden out until the deadline and
///   then thrown, or without a deadline for ever.
/// - errc::read_only (a switch-over), errc::storage_full, and errc::schema_missing without the database
///   itself (renamed or restored just now) are ridden out, too, if the lock_manager has had a lock or the
///   call has tried before. The first attempt of a new lock_manager throws them.
/// - A try_ member without a duration makes one attempt, and throws all of these.
/// - A busy lock is a return value. So is errc::row_locked in the end (acquire_status::contended).
///
/// A mutex that was moved from may be destroyed and assigned to. Its name() is empty, current() is null and
/// unlock() does nothing. Members that take a lock throw error(errc::invalid_argument).
///
/// Exception safety: a call that throws has taken no lock for its caller. After errc::in_doubt the name can
/// stay taken until the term's expiry.
///
/// Thread safety: all members may be called concurrently, but not while the mutex is moved or assigned to.
class ROWLOCK_EXPORT basic_mutex {
 public:
  basic_mutex(basic_mutex const&) = delete;
  basic_mutex& operator=(basic_mutex const&) = delete;
  /// Releases what lock() took.
  ~basic_mutex();

  std::string const& name() const noexcept;

  /// As acquire(), but without retry_options::attempts or a policy that gives up, because lock() has no
  /// result.
  /// @throws error also errc::closed if the lock_manager was destroyed before, or, with a delay, during the
  /// call. errc::not_acquired if the name is recorded as done (strategy once)
  void lock();
  [[nodiscard]] bool try_lock();
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> const& timeout) {
    return try_lock_in(saturated_nanoseconds(timeout));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<Clock, Duration> const& deadline) {
    return try_lock_in(saturated_time_until(deadline));
  }
  /// Releases what the calling thread's last lock() or try_lock...() took, or any thread's with owner
  /// takes_over. If there is none, nothing is released, and manager_options::on_event gets an error. Never
  /// throws. Blocks for manager_options::release_timeout at most. For the result use held_lock::release().
  void unlock() noexcept;

  /// Waits until the lock is taken or `stop` is triggered.
  [[nodiscard]] acquisition acquire(std::stop_token stop = {});
  /// One attempt.
  [[nodiscard]] acquisition try_acquire();
  /// Waits at most `timeout` (with at least one attempt), plus manager_options::reply_timeout if the database
  /// does not answer.
  [[nodiscard]] acquisition try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop = {});
  template <class Rep, class Period>
  [[nodiscard]] acquisition try_acquire_for(std::chrono::duration<Rep, Period> const& timeout,
                                            std::stop_token stop = {}) {
    return try_acquire_for(saturated_nanoseconds(timeout), std::move(stop));
  }

  /// As acquire(), but returns at once. `where` calls `handler(std::exception_ptr, acquisition)` once, with
  /// what acquire() would throw or return, and never inside this call. lib/doc/asynchronous.md
  ///
  /// - The owner is each acquisition's own, unless mutex_options::owner is takes_over.
  /// - A stopped call completes at once. A lock that comes nevertheless is released.
  /// - A lock whose trust has ended before `where` runs the handler is released, and the call goes on.
  /// - The lock's destructor does not wait for the database, as held_lock::release_later().
  /// - The mutex may be moved or destroyed meanwhile. The end of the lock_manager stops the call, and waits
  ///   until its handler is posted, for release_timeout at most, and not until it has run.
  /// - A handler that `where` refuses, or that is not posted by then, is destroyed without a call.
  /// - mutex_options' hooks and policy run on a thread of the library. They delay all asynchronous calls.
  ///
  /// @throws error(errc::unsupported) for a recursive_mutex; errc::closed; errc::forked; std::system_error
  /// without a thread; std::bad_alloc. Then the handler is not called.
  template <std::invocable<std::exception_ptr, acquisition> Handler>
  void async_acquire(executor const& where, Handler handler, std::stop_token stop = {}) {
    async({})(where, async_handler<acquisition>::of(std::move(handler)), std::move(stop));
  }
  /// The same, to be awaited by a coroutine.
  async_result<acquisition> async_acquire(std::reference_wrapper<executor const> where,
                                          std::stop_token stop = {});
  /// The same with a completion token of Asio's: <rowlock/asio.hpp> defines it. On its associated executor,
  /// the handler gets `(error_code, acquisition)`. What the call throws is the code, and operation_aborted if
  /// it is cancelled.
  template <completion_token Token, class Asio>
  auto async_acquire(Token&& token);
  /// As try_acquire_for(), asynchronously. `timeout` counts from the call.
  template <std::invocable<std::exception_ptr, acquisition> Handler>
  void async_acquire_for(std::chrono::nanoseconds timeout, executor const& where, Handler handler,
                         std::stop_token stop = {}) {
    async({.timeout = timeout})(where, async_handler<acquisition>::of(std::move(handler)), std::move(stop));
  }
  async_result<acquisition> async_acquire_for(std::chrono::nanoseconds timeout,
                                              std::reference_wrapper<executor const> where,
                                              std::stop_token stop = {});
  template <completion_token Token, class Asio>
  auto async_acquire_for(std::chrono::nanoseconds timeout, Token&& token);
  /// As try_acquire(), asynchronously.
  template <std::invocable<std::exception_ptr, acquisition> Handler>
  void async_try_acquire(executor const& where, Handler handler) {
    async({.one_attempt = true})(where, async_handler<acquisition>::of(std::move(handler)), {});
  }
  async_result<acquisition> async_try_acquire(std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_try_acquire(Token&& token);

  /// Waits until the lock has no holder, without taking it, for example for a value that the holder puts into
  /// a cache. Looks at the row after 2 ms, then less and less often, in the end each 250 ms, and when the
  /// seen term ends. Stands in no wait queue: a waiter can have the lock a moment later.
  /// @return false if the lock still has a holder after `timeout`, when `stop` is triggered or the
  /// lock_manager is destroyed.
  /// @throws error retryable ones only if the last look failed
  [[nodiscard]] bool wait_until_free_for(std::chrono::nanoseconds timeout, std::stop_token stop = {});
  template <class Rep, class Period>
  [[nodiscard]] bool wait_until_free_for(std::chrono::duration<Rep, Period> const& timeout,
                                         std::stop_token stop = {}) {
    return wait_until_free_for(saturated_nanoseconds(timeout), std::move(stop));
  }

  /// As wait_until_free_for(), asynchronously: see async_acquire(). `where` calls
  /// `handler(std::exception_ptr, bool)`.
  template <std::invocable<std::exception_ptr, bool> Handler>
  void async_wait_until_free_for(std::chrono::nanoseconds timeout, executor const& where, Handler handler,
                                 std::stop_token stop = {}) {
    async_until_free(timeout)(where, async_handler<bool>::of(std::move(handler)), std::move(stop));
  }
  async_result<bool> async_wait_until_free_for(std::chrono::nanoseconds timeout,
                                               std::reference_wrapper<executor const> where,
                                               std::stop_token stop = {});
  template <completion_token Token, class Asio>
  auto async_wait_until_free_for(std::chrono::nanoseconds timeout, Token&& token);

  /// The lock that the calling thread (any thread with owner takes_over) holds by lock() or try_lock...() on
  /// this object, or null. Valid until its unlock().
  held_lock const* current() const noexcept;

 protected:
  struct state;
  explicit basic_mutex(std::unique_ptr<state>) noexcept;
  basic_mutex(basic_mutex&&) noexcept;
  /// First releases what lock() took on this object.
  basic_mutex& operator=(basic_mutex&&) noexcept;

 private:
  friend class lock_manager;
  async_start<acquisition> async(async_wait) const;
  async_start<bool> async_until_free(std::chrono::nanoseconds timeout) const;
  std::shared_ptr<state> there() const;
  std::shared_ptr<state> lockable() const;
  void end() noexcept;
  bool try_lock_in(std::chrono::nanoseconds timeout);

  std::shared_ptr<state> state_;
};

/// A lock that its owner can't take twice: a second attempt of the same thread, by any object of any manager
/// on the same database, throws error(errc::would_deadlock).
class mutex : public basic_mutex {
 public:
  using basic_mutex::basic_mutex;
};

/// A lock that its owner may take again without a round trip while trust lasts, and later by a new attempt
/// with a new term. The last handle releases it.
class recursive_mutex : public basic_mutex {
 public:
  using basic_mutex::basic_mutex;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
