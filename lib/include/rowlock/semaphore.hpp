#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/types.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

namespace rowlock::managing {
struct wait_policy;
}
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class lock_manager;

/// Limits the number of units that holders have at a time, on all hosts. Each acquisition is a held_lock with
/// a term, token, expiry and loss of its own. Its end returns the units. Unlike std::counting_semaphore there
/// is no release(): units belong to their taker, and those of a dead process are free after the ttl.
///
/// Each taker obeys the limit that it was given. While callers give different limits, the largest counts.
///
/// A thread may acquire several times. Two threads that each hold a part and want more can deadlock: take all
/// units at once.
///
/// Errors and moving: as basic_mutex. Thread safety: all members may be called concurrently, but not while
/// the semaphore is moved or assigned to.
class ROWLOCK_EXPORT semaphore {
 public:
  semaphore(semaphore&&) noexcept;
  semaphore& operator=(semaphore&&) noexcept;
  semaphore(semaphore const&) = delete;
  semaphore& operator=(semaphore const&) = delete;
  ~semaphore();

  std::string const& name() const noexcept;

  /// Waits until `units`, from 1 to the limit, are taken, or `stop` is triggered.
  /// @throws error as basic_mutex; errc::invalid_argument for units above the limit, or without a known limit
  [[nodiscard]] acquisition acquire(std::int64_t units = 1, std::stop_token stop = {});
  /// One attempt. @throws error as acquire()
  [[nodiscard]] acquisition try_acquire(std::int64_t units = 1);
  /// As acquire(), with a `timeout` as for basic_mutex::try_acquire_for().
  template <class Rep, class Period>
  [[nodiscard]] acquisition try_acquire_for(std::chrono::duration<Rep, Period> const& timeout,
                                            std::int64_t units = 1, std::stop_token stop = {}) {
    return try_acquire_in(saturated_nanoseconds(timeout), units, std::move(stop));
  }

  /// As acquire(), asynchronously: see basic_mutex::async_acquire().
  template <std::invocable<std::exception_ptr, acquisition> Handler>
  void async_acquire(std::int64_t units, executor const& where, Handler handler, std::stop_token stop = {}) {
    async(units, {})(where, async_handler<acquisition>::of(std::move(handler)), std::move(stop));
  }
  async_result<acquisition> async_acquire(std::int64_t units, std::reference_wrapper<executor const> where,
                                          std::stop_token stop = {});
  template <completion_token Token, class Asio>
  auto async_acquire(std::int64_t units, Token&& token);
  template <std::invocable<std::exception_ptr, acquisition> Handler>
  void async_acquire_for(std::chrono::nanoseconds timeout, std::int64_t units, executor const& where,
                         Handler handler, std::stop_token stop = {}) {
    async(units, {.timeout = timeout})(where, async_handler<acquisition>::of(std::move(handler)),
                                       std::move(stop));
  }
  async_result<acquisition> async_acquire_for(std::chrono::nanoseconds timeout, std::int64_t units,
                                              std::reference_wrapper<executor const> where,
                                              std::stop_token stop = {});
  template <completion_token Token, class Asio>
  auto async_acquire_for(std::chrono::nanoseconds timeout, std::int64_t units, Token&& token);
  template <std::invocable<std::exception_ptr, acquisition> Handler>
  void async_try_acquire(std::int64_t units, executor const& where, Handler handler) {
    async(units, {.one_attempt = true})(where, async_handler<acquisition>::of(std::move(handler)), {});
  }
  async_result<acquisition> async_try_acquire(std::int64_t units,
                                              std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_try_acquire(std::int64_t units, Token&& token);

  /// The number of free units now, for people; empty if no limit is known. @throws error
  [[nodiscard]] std::optional<std::int64_t> available() const;

  /// Sets the limit for all semaphores of the name that were made without a limit, in all processes, until
  /// the name's row is reaped. Other semaphores keep their limit. Held units stay held.
  /// @param limit 1 to 2147483646
  /// @throws error(errc::invalid_argument) if it is out of range. errc::strategy_mismatch if the name is in
  /// use with another strategy
  void set_limit(std::int64_t limit);

 private:
  friend class lock_manager;
  struct state;
  explicit semaphore(std::shared_ptr<state>) noexcept;
  std::shared_ptr<state> there() const;
  async_start<acquisition> async(std::int64_t units, async_wait) const;
  acquisition acquire(std::int64_t units, managing::wait_policy const&, std::stop_token) const;
  acquisition try_acquire_in(std::chrono::nanoseconds timeout, std::int64_t units, std::stop_token stop);

  std::shared_ptr<state> state_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
