#pragma once

#include <semaphore.h>

#include <chrono>
#include <ctime>

namespace rowlock::base {

/// Wakes the one thread that waits for it. A POSIX semaphore, because that may be destroyed as soon as wait()
/// has returned, also while set() has not; and it asks the kernel nothing if the thread does not sleep.
class wake_up {
 public:
  wake_up() noexcept { ::sem_init(&semaphore_, 0, 0); }
  ~wake_up() { ::sem_destroy(&semaphore_); }
  wake_up(wake_up const&) = delete;
  wake_up& operator=(wake_up const&) = delete;

  /// Each ends one wait.
  void set() noexcept { ::sem_post(&semaphore_); }
  void wait() noexcept {
    while (::sem_wait(&semaphore_) != 0) {  // a signal
    }
  }
  /// @return false if the time was over, or a signal came
  bool wait_for(std::chrono::nanoseconds time) noexcept {
    auto const until = (std::chrono::steady_clock::now() + time).time_since_epoch();
    auto const whole = std::chrono::floor<std::chrono::seconds>(until);
    ::timespec const at{static_cast<std::time_t>(whole.count()), static_cast<long>((until - whole).count())};
    return ::sem_clockwait(&semaphore_, CLOCK_MONOTONIC, &at) == 0;
  }

 private:
  ::sem_t semaphore_{};
};

}  // namespace rowlock::base
