#pragma once

#include <poll.h>

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>
#include <span>
#include <vector>

#include "base/event.hpp"

namespace rowlock::base {

/// Sleeps until a moment of CLOCK_BOOTTIME or a wake(). One thread waits; any thread may wake it, also
/// beforehand.
/// <condition_variable> waits by CLOCK_MONOTONIC, which stands still while the machine sleeps. Such a wait
/// would end late, by just the time that a lease has lost.
class ROWLOCK_EXPORT boot_waiter {
 public:
  boot_waiter();
  ~boot_waiter();
  boot_waiter(boot_waiter const&) = delete;
  boot_waiter& operator=(boot_waiter const&) = delete;

  /// Also returns when one of `others` is readable. @return whether one is
  bool wait_until(boot_time_point, std::span<int const> others = {});
  void wake() noexcept { woken_.set(); }

 private:
  event woken_;
  int timer_;
  std::vector<pollfd> fds_;
};

}  // namespace rowlock::base
