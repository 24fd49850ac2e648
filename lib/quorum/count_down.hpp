#pragma once
// A std::latch with a timed wait.

#include <condition_variable>
#include <cstddef>
#include <mutex>

#include "base/boot_waiter.hpp"

namespace rowlock::voting {

class count_down {
 public:
  explicit count_down(std::size_t n) : left_(n) {}
  void one_less() {
    std::lock_guard const guard(mutex_);
    if (--left_ == 0) none_.notify_all();
  }
  bool wait_until(boot_time_point until) {
    std::unique_lock lock(mutex_);
    return none_.wait_for(lock, until - boot_clock::now(), [this] { return left_ == 0; });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  std::size_t left_;
};

}  // namespace rowlock::voting
