#pragma once
// Tasks for threads of their own, so that a task without an answer delays no other work.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <rowlock/export.hpp>
#include <thread>
#include <vector>

namespace rowlock::base {

/// Starts a thread when none is free. Threads stay. Thread-safe.
class ROWLOCK_EXPORT task_queue {
 public:
  using task = std::function<void()>;
  enum class kind {
    may_be_dropped,  ///< if too many wait, or at the end
    must_be_run
  };

  /// `thread_name` is static. The second thread runs renewals while a take waits in vain for its reply.
  explicit task_queue(char const* thread_name, std::size_t most_threads = 2) noexcept
      : name_(thread_name), most_threads_(most_threads) {}
  /// Waits for the tasks that must be run.
  ~task_queue();
  task_queue(task_queue const&) = delete;
  task_queue& operator=(task_queue const&) = delete;

  /// `what` throws nothing. @return false if the task was dropped (`most` wait for a thread), if no thread
  /// can be started, or after stop()
  bool run(task what, kind, std::size_t most = 256);
  /// Whether it is one of the threads.
  bool has(std::thread::id) const noexcept;
  /// As the destructor, but does not wait for the thread `spare`.
  void stop(std::thread::id spare) noexcept;

 private:
  void serve(std::stop_token);

  struct waiting_task {
    task what;
    kind how;
  };
  char const* const name_;
  std::size_t const most_threads_;
  mutable std::mutex mutex_;
  std::condition_variable_any come_;
  std::deque<waiting_task> line_;
  std::size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::jthread> threads_;  ///< last: they end first
};

}  // namespace rowlock::base
