#pragma once

#include <poll.h>

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>
#include <span>
#include <vector>

#include "base/event.hpp"

namespace rowlock::base {

/// Sleeps until a moment of CLOCK_BOOTTIME or until it is woken. The waits of <condition_variable> go by
/// CLOCK_MONOTONIC, which stands still while the machine sleeps: after a resume they would end late by just
/// the time that a lease has lost.
///
/// One thread waits; any thread may wake it, also beforehand.
class ROWLOCK_EXPORT boot_waiter {
 public:
  boot_waiter();
  ~boot_waiter();
  boot_waiter(boot_waiter const&) = delete;
  boot_waiter& operator=(boot_waiter const&) = delete;

  /// Also until there is something to read from one of `others`. @return whether there is
  bool wait_until(boot_time_point, std::span<int const> others = {});
  void wake() noexcept { woken_.set(); }

 private:
  event woken_;
  int timer_;
  std::vector<pollfd> fds_;
};

}  // namespace rowlock::base
