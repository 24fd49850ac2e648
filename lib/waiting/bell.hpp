#pragma once
// Wakes a waiter, whatever it waits with: a thread, or an event loop.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace rowlock::waiting {

class bell {
 public:
  virtual ~bell() = default;
  /// Something might have changed. Any thread calls it, perhaps with a mutex locked: it must neither wait nor
  /// call back.
  virtual void ring() noexcept = 0;

 protected:
  bell() = default;
  bell(bell const&) = default;
  bell& operator=(bell const&) = default;
};

/// The bell of a thread that sleeps.
class thread_bell final : public bell {
 public:
  void ring() noexcept override {
    {
      std::lock_guard const guard(mutex_);
      rung_ = true;
    }
    wake_.notify_one();
  }

  /// Returns when it is rung, at `until`, or at once if it was rung since the last wait.
  void wait(std::optional<std::chrono::steady_clock::time_point> until) {
    std::unique_lock lock(mutex_);
    auto const rung = [this] { return std::exchange(rung_, false); };
    if (until)
      (void)wake_.wait_until(lock, *until, rung);
    else
      wake_.wait(lock, rung);
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool rung_ = false;
};

}  // namespace rowlock::waiting
