#pragma once

#include <rowlock/types.hpp>
#include <stop_token>

#include "base/boot_waiter.hpp"

namespace rowlock::recipes {

/// For one thread at a time.
class sleeper {
 public:
  /// Ends when the token is triggered. @return false if it was
  bool sleep_until(boot_time_point moment, std::stop_token const& stop) {
    std::stop_callback const at_stop(stop, [this] { waiter_.wake(); });
    if (!stop.stop_requested()) waiter_.wait_until(moment);
    return !stop.stop_requested();
  }

 private:
  base::boot_waiter waiter_;
};

}  // namespace rowlock::recipes
