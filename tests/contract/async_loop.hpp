#pragma once
// A program with an event loop, run by hand, and coroutines on it.

#include <condition_variable>
#include <coroutine>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "contract/fixture.hpp"

namespace rowlock::test {

/// An event loop whose turns the case makes.
class loop {
 public:
  executor where() {
    return executor([this](posted p) {
      std::lock_guard const guard(mutex_);
      if (refuses_) throw std::runtime_error("the loop has ended");
      waiting_.push_back(std::move(p));
      posted_by_ = std::this_thread::get_id();
      come_.notify_all();
    });
  }
  bool comes() {
    std::unique_lock lock(mutex_);
    return come_.wait_for(lock, 60s, [this] { return !waiting_.empty(); });
  }
  std::size_t waiting() {
    std::lock_guard const guard(mutex_);
    return waiting_.size();
  }
  /// The thread that posted last.
  std::thread::id posted_by() {
    std::lock_guard const guard(mutex_);
    return posted_by_;
  }
  /// Runs what comes next.
  void turn() {
    REQUIRE(comes());
    std::unique_lock lock(mutex_);
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    next();
  }
  void refuse() {
    std::lock_guard const guard(mutex_);
    refuses_ = true;
  }
  /// As a loop that ends with work in it.
  void drop() {
    std::deque<posted> dropped;
    std::lock_guard const guard(mutex_);
    dropped.swap(waiting_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable come_;
  std::deque<posted> waiting_;
  std::thread::id posted_by_;
  bool refuses_ = false;
};

/// What a handler was given.
struct outcome {
  int calls = 0;
  std::exception_ptr failed;
  std::optional<acquisition> came;
  std::thread::id ran_on;

  auto handler() {
    return [this](std::exception_ptr e, acquisition a) {
      ++calls;
      failed = std::move(e);
      came.emplace(std::move(a));
      ran_on = std::this_thread::get_id();
    };
  }
  bool has() const { return came && *came; }
  acquire_status status() const { return came->status(); }
};

/// A coroutine that begins at once, and whose frame its owner destroys.
class task {
 public:
  struct promise_type {
    task get_return_object() { return task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  task(task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  task& operator=(task&&) = delete;
  ~task() { end(); }
  bool done() const { return frame_.done(); }
  void end() noexcept {
    if (auto const mine = std::exchange(frame_, nullptr)) mine.destroy();
  }

 private:
  explicit task(std::coroutine_handle<promise_type> f) : frame_(f) {}
  std::coroutine_handle<promise_type> frame_;
};

/// What a handler of another call was given.
template <class Result>
struct answer {
  int calls = 0;
  std::exception_ptr failed;
  std::optional<Result> came;

  auto handler() {
    return [this](std::exception_ptr e, Result r) {
      ++calls;
      failed = std::move(e);
      came.emplace(std::move(r));
    };
  }
};

}  // namespace rowlock::test
