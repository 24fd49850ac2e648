#pragma once

#include <rowlock/types.hpp>

#include "process/descriptor.hpp"

namespace rowlock::tool {

/// A timerfd on CLOCK_BOOTTIME: becomes readable once the time that it was set to has passed, also if the
/// machine slept in between. set() may be called from any thread.
class boot_timer {
 public:
  boot_timer();
  int get() const noexcept { return fd_.get(); }
  void set(boot_time_point when) noexcept;
  void clear() noexcept;

 private:
  descriptor fd_;
};

/// The end of time: no deadline.
inline constexpr boot_time_point never = boot_time_point::max();

/// `when` - `by`, and never stays never.
constexpr boot_time_point earlier(boot_time_point when, boot_clock::duration by) noexcept {
  return when == never ? never : when - by;
}

}  // namespace rowlock::tool
