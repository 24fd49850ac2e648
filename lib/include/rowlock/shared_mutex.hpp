#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/export.hpp>
#include <rowlock/mutex.hpp>

#include <chrono>
#include <memory>
#include <stop_token>
#include <utility>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// A lock for one writer or many readers. Meets SharedTimedLockable: works with std::shared_lock,
/// std::unique_lock and std::scoped_lock.
///
/// Members of basic_mutex lock it for writing, those with "shared" in their names for reading. Each reader
/// has a term of its own, which is renewed, lost, required and revoked by itself. Tokens rise with each
/// grant, but those of simultaneous readers don't fence each other.
///
/// No caller starves where the database has a wait queue (lib/doc/permits.md): all wait for its head.
/// Without a queue the waiters take turns by the half second.
///
/// A thread that reads may read again without a round trip. A reader that asks to write, or a writer that
/// asks to read, gets error(errc::would_deadlock): use held_lock::try_upgrade() and downgrade().
///
/// Thread safety: as basic_mutex.
class ROWLOCK_EXPORT shared_mutex : public basic_mutex {
 public:
  shared_mutex(shared_mutex&&) noexcept = default;
  shared_mutex& operator=(shared_mutex&&) noexcept = default;
  ~shared_mutex() = default;

  void lock_shared() { readers_.lock(); }                               ///< as lock()
  [[nodiscard]] bool try_lock_shared() { return readers_.try_lock(); }  ///< as try_lock()
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(std::chrono::duration<Rep, Period> const& timeout) {
    return readers_.try_lock_for(timeout);
  }
  template <class Clock, class Duration>
  [[nodiscard]] bool try_lock_shared_until(std::chrono::time_point<Clock, Duration> const& deadline) {
    return readers_.try_lock_until(deadline);
  }
  void unlock_shared() noexcept { readers_.unlock(); }  ///< as unlock()

  /// As acquire().
  [[nodiscard]] acquisition acquire_shared(std::stop_token stop = {}) {
    return readers_.acquire(std::move(stop));
  }
  /// As try_acquire().
  [[nodiscard]] acquisition try_acquire_shared() { return readers_.try_acquire(); }
  /// As try_acquire_for().
  template <class Rep, class Period>
  [[nodiscard]] acquisition try_acquire_shared_for(std::chrono::duration<Rep, Period> const& timeout,
                                                   std::stop_token stop = {}) {
    return readers_.try_acquire_for(timeout, std::move(stop));
  }

  /// As async_acquire(), async_acquire_for() and async_try_acquire(), with the same arguments.
  template <class... Args>
  auto async_acquire_shared(Args&&... args) {
    return readers_.async_acquire(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto async_acquire_shared_for(std::chrono::nanoseconds timeout, Args&&... args) {
    return readers_.async_acquire_for(timeout, std::forward<Args>(args)...);
  }
  template <class... Args>
  auto async_try_acquire_shared(Args&&... args) {
    return readers_.async_try_acquire(std::forward<Args>(args)...);
  }
  template <completion_token Token, class Asio>
  auto async_acquire_shared(Token&& token);
  template <completion_token Token, class Asio>
  auto async_acquire_shared_for(std::chrono::nanoseconds timeout, Token&& token);
  template <completion_token Token, class Asio>
  auto async_try_acquire_shared(Token&& token);

  /// As current(), for lock_shared().
  held_lock const* current_shared() const noexcept { return readers_.current(); }

 private:
  friend class lock_manager;
  class part : public basic_mutex {
   public:
    explicit part(std::unique_ptr<state>) noexcept;
    part(part&&) noexcept = default;
    part& operator=(part&&) noexcept = default;
  };
  shared_mutex(std::unique_ptr<state> writer, std::unique_ptr<state> reader) noexcept;

  part readers_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
