#pragma once
// Where managers are ended: on threads of the library's own, so that whoever destroys one, or ends the
// process, waits for as long as it may and no longer, whatever its own thread was doing.

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

/// What a manager needs for its own end. Made with the manager, because at the end it may be impossible to
/// allocate memory: exit() may have been called by a signal handler that interrupted malloc().
struct closing {
  std::atomic<bool> asked{false};
  std::shared_ptr<manager> whom;  ///< kept until it is done
  std::thread::id by;             ///< is not waited for
  int calls_of_by = 0;
  std::chrono::nanoseconds time{0};
  base::event given_back;  ///< no lock is held any more, and nobody waits for one
  base::event ended;       ///< nor does any thread run
  closing* next = nullptr;
};

/// One per process, with a thread that sleeps until a manager is to be ended. Thread-safe.
class closer {
 public:
  static closer& of_this_process();

  /// If the manager still exists at the end of the process, it is closed then: before the handlers of the
  /// drivers run that were initialized until now.
  void know(std::shared_ptr<manager> const&, backend::source const&);

  /// Starts the thread. Needed before a lock can be held. @throws std::system_error
  void get_ready();

  /// Has the manager closed, by another thread. Takes no mutex and no memory.
  /// @return false if it was never needed to get ready
  bool ask(closing&) noexcept;

  /// Has all closed that are left, and waits. Takes no mutex and no memory.
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
  std::thread::id all_by_;  ///< as closing has it
  base::calls::scope const* calls_of_all_by_ = nullptr;
  std::atomic<std::chrono::nanoseconds::rep> longest_{0};  ///< that the end of one may take
  base::event all_closed_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<manager>> known_;
  std::set<std::pair<std::type_index, std::string_view>> sources_;  ///< kinds of them, and dialects
  std::list<worker> workers_;                                       ///< of run() alone
  std::jthread thread_;
};

}  // namespace rowlock::managing
