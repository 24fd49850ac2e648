#pragma once
// Which threads are inside the library: so that a thread that ends a manager waits for the others' calls, and
// never for itself.

#include <condition_variable>
#include <mutex>
#include <rowlock/types.hpp>

namespace rowlock::base {

/// The calls of one manager that are under way. Thread-safe.
class calls {
 public:
  /// One call, by the thread that makes it.
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

  /// The calls that the calling thread is in, none if null; to be looked at while it waits.
  static scope const* stack_of_this_thread() noexcept;
  /// How many of those are this manager's.
  int in(scope const* stack) const noexcept;
  /// Whether a signal handler has interrupted one of this manager's calls, of the calling thread: it may have
  /// a mutex of ours, and a session in the middle of a statement.
  bool interrupted() const noexcept;
  /// Waits until no more than `others_than` are left. @return false if they were at the deadline
  bool wait_until_gone(int others_than, boot_time_point deadline);

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  int under_way_ = 0;
};

/// Marks a thread that is a manager's own, as long as it lives.
class serving {
 public:
  serving() noexcept;
  ~serving();
  serving(serving const&) = delete;
  serving& operator=(serving const&) = delete;
};

/// While it lives, the calling thread runs code of the program's: a hook, or a policy.
class outside {
 public:
  outside() noexcept;
  ~outside();
  outside(outside const&) = delete;
  outside& operator=(outside const&) = delete;

 private:
  calls::scope const* const left_;
};

/// Whether the calling thread is a manager's own, or in a call: a hook or callback runs, or a signal handler.
bool inside_the_library() noexcept;

}  // namespace rowlock::base
