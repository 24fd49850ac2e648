#pragma once
// The end of this process by exit() or return from main. One thread runs handlers and static destructors, and
// all others go on.

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>
#include <thread>

namespace rowlock::base {

/// After the first call, the process's end is noticed before any older static object is destroyed.
void watch_for_process_end() noexcept;

/// The same for a caller that is about to wait for a lock. The first function, called in a static handle's
/// constructor, notices the end only after that handle's destructor.
void watch_for_process_end_of_others() noexcept;

/// Can be false during the destruction of static objects that were made after the first calls of these two.
bool process_ends() noexcept;

/// Whether that thread ends the process.
bool process_ends_by(std::thread::id) noexcept;

/// Whether another thread ends the process.
bool process_ends_elsewhere() noexcept;

/// The part of `usual` that a call may still use. At the end of the process all waits of the ending thread
/// share one such time: ten handles on a dead server must not cost ten.
std::chrono::nanoseconds time_left(std::chrono::nanoseconds usual) noexcept;

/// While it lives, that time runs.
class end_time_spent {
 public:
  end_time_spent() noexcept : began_(boot_clock::now()) {}
  ~end_time_spent();
  end_time_spent(end_time_spent const&) = delete;
  end_time_spent& operator=(end_time_spent const&) = delete;

 private:
  boot_time_point began_;
};

/// Call it before the drivers' own handlers run. Waits briefly for driver_calls that are under way.
void drivers_end() noexcept;

/// A short call into a driver, such as a thread's leave of it. After drivers_end() only the ending thread
/// begins one.
class ROWLOCK_EXPORT driver_call {
 public:
  driver_call() noexcept;
  ~driver_call();
  driver_call(driver_call const&) = delete;
  driver_call& operator=(driver_call const&) = delete;
};

/// Call it before a thread enters a driver, and after each wait in it. After drivers_end() it returns only in
/// the ending thread.
ROWLOCK_EXPORT void stay_out_of_ended_drivers() noexcept;

}  // namespace rowlock::base
