#pragma once
// What is asked beside other things, by threads of its own, so that what does not answer keeps nobody else
// waiting.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace rowlock::base {

/// A thread is begun when none is free, and stays. Thread-safe.
class task_queue {
 public:
  using task = std::function<void()>;
  enum class kind {
    may_be_dropped,  ///< if too many wait, or at the end
    must_be_run
  };

  /// `thread_name` is static. One that asks for a lock may wait for a reply that does not come; then renewals
  /// have another thread.
  explicit task_queue(char const* thread_name, std::size_t most_threads = 2) noexcept
      : name_(thread_name), most_threads_(most_threads) {}
  /// Waits for those that must be run.
  ~task_queue();
  task_queue(task_queue const&) = delete;
  task_queue& operator=(task_queue const&) = delete;

  /// `what` throws nothing. @return false if it was dropped: `most` are waiting, so nobody answers; or there
  /// is no thread to be had, whatever the kind
  bool run(task what, kind, std::size_t most = 256);

 private:
  void serve(std::stop_token);

  struct waiting_task {
    task what;
    kind how;
  };
  char const* const name_;
  std::size_t const most_threads_;
  std::mutex mutex_;
  std::condition_variable_any come_;
  std::deque<waiting_task> line_;
  std::size_t idle_ = 0;
  std::vector<std::jthread> threads_;  ///< last: they end first
};

}  // namespace rowlock::base
