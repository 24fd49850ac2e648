#pragma once

#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/options.hpp>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class lock_manager;

/// What mutex and recursive_mutex have in common. Meets TimedLockable: works with std::scoped_lock,
/// std::unique_lock.
///
/// Errors of every member that takes a lock: an error that is not retryable is thrown at once. Retryable ones
/// (the database unreachable, a lost reply) are ridden out until the deadline and then thrown; without a
/// deadline they are ridden out for ever. So are errc::read_only and errc::storage_full, which may be a
/// switch-over or a full disk that passes, and errc::schema_missing if the database itself is not there,
/// which may be renamed or restored just now, once the lock_manager has had a lock or the call has tried
/// before; at the first attempt of a new lock_manager they are thrown at once. A try_ member without a
/// duration makes one attempt and throws each of these errors. "Held by somebody else" is a return value, and
/// so is errc::row_locked in the end (acquire_status::contended).
///
/// A mutex that was moved from may be destroyed and assigned to. Its name() is empty, current() is null and
/// unlock() does nothing. Members that take a lock throw error(errc::invalid_argument).
///
/// Exception safety: a call that throws has taken no lock for its caller. If the error is errc::in_doubt, the
/// name may stay taken until the term ends by its expiry.
///
/// Thread safety: all members may be called from several threads at once, but not while the mutex is moved or
/// assigned to.
class ROWLOCK_EXPORT basic_mutex {
 public:
  basic_mutex(basic_mutex const&) = delete;
  basic_mutex& operator=(basic_mutex const&) = delete;
  /// Gives back what lock() took.
  ~basic_mutex();

  std::string const& name() const noexcept;

  /// As acquire(), but neither retry_options::attempts nor a policy that gives up ends it, because lock() has
  /// no result that could say so. If the lock_manager was destroyed before, it throws error(errc::closed); if
  /// it is destroyed meanwhile, the same with a delay; if the name is recorded as done (strategy once),
  /// error(errc::not_acquired).
  void lock();
  [[nodiscard]] bool try_lock();
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> const& timeout) {
    return try_lock_in(saturated_nanoseconds(timeout));
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<Clock, Duration> const& deadline) {
    std::chrono::duration<long double> const left =
        std::chrono::duration<long double>(deadline.time_since_epoch()) -
        std::chrono::duration<long double>(Clock::now().time_since_epoch());
    return try_lock_for(left);
  }
  /// Gives back what the calling thread's last lock() or try_lock...() took. (If mutex_options::owner is
  /// takes_over, any thread's.) If there is none, because another thread took it, nothing is given back, and
  /// manager_options::on_event hears of an error.
  /// Never throws, never blocks longer than manager_options::release_timeout. held_lock::release() is the
  /// form that says what came of it.
  void unlock() noexcept;

  /// Waits until the lock is taken or `stop` is triggered.
  [[nodiscard]] acquisition acquire(std::stop_token stop = {});
  /// One attempt.
  [[nodiscard]] acquisition try_acquire();
  /// Waits at most `timeout` (an attempt is made even if it is zero or less), plus
  /// manager_options::reply_timeout if the database does not answer.
  [[nodiscard]] acquisition try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop = {});
  template <class Rep, class Period>
  [[nodiscard]] acquisition try_acquire_for(std::chrono::duration<Rep, Period> const& timeout,
                                            std::stop_token stop = {}) {
    return try_acquire_for(saturated_nanoseconds(timeout), std::move(stop));
  }

  /// Waits until nobody holds the lock, without taking it: for those who want what its holder makes, as
  /// readers of a cache do. Looks at the row after 2 ms, then less and less often, each 250 ms in the end,
  /// and when the term that it saw ends. It stands in no line, and whoever does may have the lock a moment
  /// later.
  /// @return false if somebody holds it still after `timeout`, or when `stop` is triggered or the
  /// lock_manager is destroyed
  /// @throws error retryable ones only if the last look failed
  [[nodiscard]] bool wait_until_free_for(std::chrono::nanoseconds timeout, std::stop_token stop = {});
  template <class Rep, class Period>
  [[nodiscard]] bool wait_until_free_for(std::chrono::duration<Rep, Period> const& timeout,
                                         std::stop_token stop = {}) {
    return wait_until_free_for(saturated_nanoseconds(timeout), std::move(stop));
  }

  /// The lock that the calling thread holds by lock() or try_lock...() on this object, or null. (If
  /// mutex_options::owner is takes_over, any thread.) Valid until its unlock().
  held_lock const* current() const noexcept;

 protected:
  struct state;
  explicit basic_mutex(std::unique_ptr<state>) noexcept;
  basic_mutex(basic_mutex&&) noexcept;
  /// First gives back what lock() took on this object.
  basic_mutex& operator=(basic_mutex&&) noexcept;

 private:
  friend class lock_manager;
  std::shared_ptr<state> there() const;
  std::shared_ptr<state> lockable() const;
  void end() noexcept;
  bool try_lock_in(std::chrono::nanoseconds timeout);

  std::shared_ptr<state> state_;
};

/// A lock that its owner can't take twice: a second attempt of the same thread, by any object of any manager
/// on the same database, throws error(errc::would_deadlock), which equals
/// std::errc::resource_deadlock_would_occur.
class mutex : public basic_mutex {
 public:
  using basic_mutex::basic_mutex;
};

/// A lock that its owner may take again, without a round trip, as long as trust lasts. It is given back with
/// the last handle. If trust has ended, taking it again is an attempt like any other, with a new term.
class recursive_mutex : public basic_mutex {
 public:
  using basic_mutex::basic_mutex;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
