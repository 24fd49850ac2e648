#pragma once

#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/types.hpp>

#include <chrono>
#include <cstdint>
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

/// Lets so many in at a time, on all hosts: what is acquired is some of the units that its limit says. Each
/// acquisition is a held_lock with a term, token, expiry and loss of its own, and gives its units back when
/// it ends. Unlike std::counting_semaphore it has no release(): units belong to whoever took them, and those
/// of a process that died are free after the ttl.
///
/// Each taker obeys the limit that it was told. While callers are told different ones, the largest counts.
///
/// A thread may acquire several times; each time may wait for what others have, so that two threads that
/// each hold a part and want more may wait for each other: take all at once.
///
/// Errors and moving: as basic_mutex.
///
/// Thread safety: all members may be called from several threads at once, but not while the semaphore is
/// moved or assigned to.
class ROWLOCK_EXPORT semaphore {
 public:
  semaphore(semaphore&&) noexcept;
  semaphore& operator=(semaphore&&) noexcept;
  semaphore(semaphore const&) = delete;
  semaphore& operator=(semaphore const&) = delete;
  ~semaphore();

  std::string const& name() const noexcept;

  /// Waits until `units`, from 1 to the limit, are taken, or `stop` is triggered.
  /// @throws error(errc::invalid_argument) if there are never so many, or no limit is known; else as
  /// basic_mutex
  [[nodiscard]] acquisition acquire(std::int64_t units = 1, std::stop_token stop = {});
  /// One attempt. @throws error as acquire()
  [[nodiscard]] acquisition try_acquire(std::int64_t units = 1);
  /// Waits at most `timeout` (an attempt is made even if it is zero or less), plus
  /// manager_options::reply_timeout if the database does not answer. @throws error as acquire()
  template <class Rep, class Period>
  [[nodiscard]] acquisition try_acquire_for(std::chrono::duration<Rep, Period> const& timeout,
                                            std::int64_t units = 1, std::stop_token stop = {}) {
    return try_acquire_in(saturated_nanoseconds(timeout), units, std::move(stop));
  }

  /// How many units could be had at this moment; empty if no limit is known. For people: the next moment may
  /// be different. @throws error
  [[nodiscard]] std::optional<std::int64_t> available() const;

  /// Sets the limit for all semaphores of the name that were made without one, in all processes; it stays
  /// until the name's row is reaped. Those that were made with one go by their own. What is held stays held.
  /// @param limit  1 to 2147483646
  /// @throws error(errc::invalid_argument) if it is out of range; errc::strategy_mismatch if the name is used
  /// otherwise
  void set_limit(std::int64_t limit);

 private:
  friend class lock_manager;
  struct state;
  explicit semaphore(std::shared_ptr<state>) noexcept;
  std::shared_ptr<state> there() const;
  acquisition acquire(std::int64_t units, managing::wait_policy const&, std::stop_token) const;
  acquisition try_acquire_in(std::chrono::nanoseconds timeout, std::int64_t units, std::stop_token stop);

  std::shared_ptr<state> state_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
