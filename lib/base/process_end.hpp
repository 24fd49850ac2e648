#pragma once
// The end of this process by exit() or return from main: handlers and static destructors run in one thread,
// and all others go on.

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>
#include <thread>

namespace rowlock::base {

/// From the first call on, the beginning of the process's end is noticed, before anything that was made until
/// then is destroyed.
void watch_for_process_end() noexcept;

/// The same, once more: to be called by whoever is about to wait for a lock of this process. A static handle
/// takes its lock while it is made, so that the first call is not early enough for its own destructor.
void watch_for_process_end_of_others() noexcept;

/// False, perhaps, while those static objects are destroyed that were made after the first call of
/// one of these two.
bool process_ends() noexcept;

/// The process ends, and that thread ends it.
bool process_ends_by(std::thread::id) noexcept;

/// The process ends, and another thread ends it.
bool process_ends_elsewhere() noexcept;

/// What a call may still use of `usual`: at the end of the process all that waits in the thread that ends it
/// shares one such time, or ten handles on a dead server would cost ten of them.
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

/// Next, the drivers' own handlers run. Waits, briefly, for driver_calls that are under way.
void drivers_end() noexcept;

/// A short call into a driver, such as a thread's leave of it: after drivers_end() it is not begun.
class ROWLOCK_EXPORT driver_call {
 public:
  driver_call() noexcept;
  ~driver_call();
  driver_call(driver_call const&) = delete;
  driver_call& operator=(driver_call const&) = delete;
};

/// To be called where a thread is about to enter a driver, or comes back from a wait in it: after
/// drivers_end() it does not return, but in the thread that ends the process.
ROWLOCK_EXPORT void stay_out_of_ended_drivers() noexcept;

}  // namespace rowlock::base
