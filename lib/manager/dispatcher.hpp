#pragma once
// The second driver of calls, beside the calling thread: one thread of a manager steps all asynchronous
// calls, and never waits for the database. Workers ask their questions. What gives something back has workers
// of its own, and so has what waits in the server. So a release always finds a worker. [F10]

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/task_queue.hpp"
#include "base/wake_up.hpp"
#include "manager/async_take.hpp"

namespace rowlock::managing {

/// Of one manager. Starts its threads when they are first needed. Thread-safe.
class dispatcher {
 public:
  explicit dispatcher(engine&);
  ~dispatcher();
  dispatcher(dispatcher const&) = delete;
  dispatcher& operator=(dispatcher const&) = delete;

  /// Takes the delivery, unless it throws.
  /// @throws error(errc::closed) after end(), std::system_error without a thread, std::bad_alloc
  void start(std::unique_ptr<delivery>&);
  void start(std::unique_ptr<async_call>);
  /// Has a worker release the lock, if this is its last handle. Without memory or a thread, the renewer does.
  /// `unseen`: the program never had it.
  void release(std::shared_ptr<holding::hold> const&, bool unseen = false) noexcept;
  /// The same for several, together.
  void release(std::vector<std::shared_ptr<holding::hold>>, bool unseen = false) noexcept;

  /// Has a worker ask, and then posts the answer. `releases`: it gives something back. `asks` throws nothing.
  /// @throws as start()
  void run(std::function<void()> asks, std::unique_ptr<continuation> answer, bool releases);

  /// Whether the calling thread is in an executor's post().
  static bool posts_here() noexcept;
  /// Runs it on the thread for continuations.
  void run_by_itself(std::unique_ptr<posted::work>) noexcept;

  /// No call begins from now on. Waits until all have been posted, and all releases are done, except for
  /// what the thread `by` does: it waits for this, in a hook.
  /// @return false if some are left at the deadline
  bool end(boot_time_point deadline, std::thread::id by) noexcept;
  /// Waits until no continuation runs on the library's thread, unless that is `by`.
  /// @return false at the deadline
  bool wait_for_continuations(boot_time_point deadline, std::thread::id by) noexcept;
  /// Nothing is posted from now on: what is left is refused. Waits for a post that is under way, unless the
  /// calling thread is in it.
  void mute(boot_time_point deadline) noexcept;
  /// By the executor of the continuation.
  void post(std::unique_ptr<continuation>) noexcept;
  /// Ends the threads, but not `spare`. Precondition: end() was true, or the process ends.
  void stop(std::thread::id spare) noexcept;

  /// For the calls. From any thread.
  void list(async_call&) noexcept;

 private:
  using clock = std::chrono::steady_clock;

  /// @throws error(errc::closed), std::system_error
  void count_one(bool also_at_end);
  void one_less() noexcept;
  /// `gives_back` in a worker, or `leaves` here.
  template <class GiveBack, class Leave>
  void release_by_worker(GiveBack const& gives_back, Leave const& leaves) noexcept;
  bool wait_until(boot_time_point deadline, std::unique_lock<std::mutex>&, std::size_t const& count,
                  std::size_t most) noexcept;
  void serve();
  void look_at(async_call&) noexcept;
  void step(async_call&) noexcept;
  /// @return false if it has ended
  bool goes_on(async_call&);
  void ask(async_call&, question const&) noexcept;
  bool connects_already(async_take&) noexcept;
  bool stands_behind(async_take&) noexcept;
  void connected(async_take&) noexcept;
  void clear_up(async_call&) noexcept;
  void finish(async_call&) noexcept;
  /// @return false if the program has the answer already
  bool send(async_call&) noexcept;
  clock::time_point run_timers() noexcept;
  void rest(async_call&, pause const&);
  void stop_watching(async_call&) noexcept;
  clock::time_point watch_names() noexcept;
  void ask(std::shared_ptr<name_look> const&);

  engine& engine_;
  std::atomic<async_call*> come_ = nullptr;  ///< newest first
  base::wake_up wake_;
  std::atomic<bool> stopped_ = false;
  async_call::timers timers_;
  name_watch watch_;
  async_take* connecting_ = nullptr;  ///< it asks
  std::vector<async_take*> wait_for_connect_;
  std::mutex mutex_;
  std::condition_variable less_;
  std::size_t open_ = 0;      ///< calls and releases that have not ended
  std::size_t going_on_ = 0;  ///< continuations on the library's thread
  std::size_t posting_ = 0;
  bool ended_ = false;
  bool muted_ = false;
  base::task_queue questions_;
  base::task_queue releases_;
  base::task_queue standers_;
  base::task_queue row_locks_;
  base::task_queue continuations_;
  std::jthread thread_;
};

}  // namespace rowlock::managing
