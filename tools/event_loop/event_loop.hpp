#pragma once
// An event loop for programs that test or measure asynchronous calls: one thread, a queue and timers.

#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <rowlock/executor.hpp>
#include <utility>

namespace rowlock::tool {

/// A coroutine that begins at once, and that no other one awaits.
struct detached_task {
  struct promise_type {
    detached_task get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

/// One thread calls run(). All other members may be called by any thread, also at the same time.
///
/// What was posted and has not run when the loop is destroyed is destroyed without a call.
class event_loop {
 public:
  using clock = std::chrono::steady_clock;

  event_loop() = default;
  event_loop(event_loop const&) = delete;
  event_loop& operator=(event_loop const&) = delete;
  ~event_loop() = default;

  /// `job` runs once on the loop's thread, after all that was posted for an earlier time.
  template <class Job>
  void post_at(clock::time_point when, Job job) {
    auto made = std::make_unique<model<Job>>(std::move(job));
    {
      std::lock_guard const guard(mutex_);
      bool const first = jobs_.empty() || when < jobs_.begin()->first;
      jobs_.emplace(when, std::move(made));
      if (!first) return;
    }
    come_.notify_one();
  }
  template <class Job>
  void post(Job job) {
    post_at(clock::now(), std::move(job));
  }
  template <class Job>
  void post_after(clock::duration time, Job job) {
    post_at(clock::now() + time, std::move(job));
  }

  /// Until stop().
  void run() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      if (jobs_.empty()) {
        come_.wait(lock);
      } else if (auto const when = jobs_.begin()->first; when > clock::now()) {
        come_.wait_until(lock, when);
      } else {
        auto const next = std::move(jobs_.begin()->second);
        jobs_.erase(jobs_.begin());
        lock.unlock();
        next->run();
        lock.lock();
      }
    }
  }
  void stop() {
    {
      std::lock_guard const guard(mutex_);
      stopped_ = true;
    }
    come_.notify_one();
  }

  rowlock::executor executor() {
    return rowlock::executor([this](posted p) { post(std::move(p)); });
  }

  /// `co_await loop.pause(2ms)`: goes on after that time, on the loop's thread.
  auto pause(clock::duration time) { return pausing{*this, time}; }

 private:
  struct queued {
    queued() = default;
    queued(queued const&) = delete;
    queued& operator=(queued const&) = delete;
    virtual ~queued() = default;
    virtual void run() = 0;
  };
  template <class Job>
  struct model final : queued {
    explicit model(Job j) : what(std::move(j)) {}
    void run() override { what(); }
    Job what;
  };
  struct pausing {
    event_loop& loop;
    clock::duration time;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> whom) const {
      loop.post_after(time, [whom] { whom.resume(); });
    }
    void await_resume() const noexcept {}
  };

  std::mutex mutex_;
  std::condition_variable come_;
  std::multimap<clock::time_point, std::unique_ptr<queued>> jobs_;  ///< in the order of their times
  bool stopped_ = false;
};

}  // namespace rowlock::tool
