#pragma once
// Managers end on threads of the library (lib/doc/ending.md). So a thread that destroys a manager, or ends
// the process, waits only as long as it may.

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <rowlock/types.hpp>
#include <set>
#include <string_view>
#include <thread>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/calls.hpp"
#include "base/event.hpp"

namespace rowlock::backend {
class source;
}

namespace rowlock::managing {

class manager;

/// A manager's end. Made with the manager, because exit() in a signal handler might have interrupted
/// malloc().
struct closing {
  std::atomic<bool> asked{false};
  std::shared_ptr<manager> whom;  ///< until the end is done
  std::thread::id by;             ///< not waited for
  int calls_of_by = 0;
  std::chrono::nanoseconds time{0};
  base::event given_back;  ///< no lock is held, and no thread waits for one
  base::event ended;       ///< also, no thread runs
  closing* next = nullptr;
};

/// One per process, with a thread that sleeps until a manager ends. Thread-safe.
class closer {
 public:
  static closer& of_this_process();

  /// A manager that still exists at the end of the process is closed then, before the exit handlers of the
  /// drivers that are initialized now.
  void know(std::shared_ptr<manager> const&, backend::source const&);

  /// Starts the thread, before a lock is held. @throws std::system_error
  void get_ready();

  /// Has a thread close the manager. Takes no mutex and no memory. @return false without get_ready()
  bool ask(closing&) noexcept;

  /// Has all remaining managers closed, and waits. Takes no mutex and no memory.
  void close_all() noexcept;

 private:
  struct worker {
    std::atomic<bool> done{false};
    std::jthread thread;
  };

  void run();
  void begin_asked();
  void begin(closing&);
  void begin_all();
  void join_done();
  void join_all(boot_time_point deadline);

  base::event wake_;
  std::atomic<bool> ready_{false};
  std::atomic<closing*> asked_{nullptr};
  std::atomic<bool> all_asked_{false};
  std::thread::id all_by_;
  base::calls::scope const* calls_of_all_by_ = nullptr;
  std::atomic<std::chrono::nanoseconds::rep> longest_{0};  ///< the longest end
  base::event all_closed_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<manager>> known_;
  std::set<std::pair<std::type_index, std::string_view>> sources_;  ///< kind and dialect
  std::list<worker> workers_;                                       ///< for the thread of run()
  std::jthread thread_;
};

}  // namespace rowlock::managing
