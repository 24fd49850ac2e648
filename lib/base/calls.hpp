#pragma once
// The threads inside the library. A thread that ends a manager waits for the calls of other threads, and
// never for its own.

#include <condition_variable>
#include <mutex>
#include <rowlock/types.hpp>

namespace rowlock::base {

/// The calls of one manager that are under way. Thread-safe.
class calls {
 public:
  class scope {
   public:
    explicit scope(calls&);
    ~scope();
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;

   private:
    friend class calls;
    calls& of_;
    scope const* const around_;  ///< the call in whose hook, policy or signal handler this one is made
  };

  /// The calls of the calling thread, innermost first; null: none. Other threads may read them while it
  /// waits.
  static scope const* stack_of_this_thread() noexcept;
  /// This manager's calls among those.
  int in(scope const* stack) const noexcept;
  /// Whether a signal handler has interrupted a call of this manager in the calling thread. That call can
  /// hold a mutex of ours, or a session in mid-statement.
  bool interrupted() const noexcept;
  /// Waits until at most `others_than` calls are left. @return false at the deadline
  bool wait_until_gone(int others_than, boot_time_point deadline);

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  int under_way_ = 0;
};

/// While it lives, the calling thread counts as a manager's own.
class ROWLOCK_EXPORT serving {
 public:
  serving() noexcept;
  ~serving();
  serving(serving const&) = delete;
  serving& operator=(serving const&) = delete;

 private:
  bool const before_;
};

/// While it lives, the calling thread runs code of the program: a hook or a policy.
class outside {
 public:
  outside() noexcept;
  ~outside();
  outside(outside const&) = delete;
  outside& operator=(outside const&) = delete;

 private:
  calls::scope const* const left_;
};

/// Whether the calling thread is a manager's own, or in a call (a hook, callback or signal handler runs).
bool inside_the_library() noexcept;

}  // namespace rowlock::base
