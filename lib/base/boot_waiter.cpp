#include "base/boot_waiter.hpp"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <system_error>

#include "base/boot_lead.hpp"

namespace rowlock::base {

boot_waiter::boot_waiter() : timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (timer_ < 0) throw std::system_error(errno, std::generic_category(), "timerfd");
}

boot_waiter::~boot_waiter() { ::close(timer_); }

bool boot_waiter::wait_until(boot_time_point moment, std::span<int const> others) {
  auto const* const lead = next_boot_lead();
  // An all-zero time would disarm the timer.
  auto const ahead = boot_lead().count();
  auto const ns = std::max<std::int64_t>(moment.time_since_epoch().count(), ahead + 1) - ahead;
  itimerspec when{};
  when.it_value.tv_sec = static_cast<std::time_t>(ns / 1'000'000'000);
  when.it_value.tv_nsec = static_cast<long>(ns % 1'000'000'000);
  ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
  fds_.assign({{timer_, POLLIN, 0}, {woken_.fd(), POLLIN, 0}});
  for (int const fd : others) fds_.push_back({fd, POLLIN, 0});
  if (lead != nullptr) fds_.push_back({lead->fd(), POLLIN, 0});
  while (::poll(fds_.data(), fds_.size(), -1) < 0 && errno == EINTR) {
  }
  std::uint64_t drained = 0;
  (void)!::read(timer_, &drained, sizeof drained);
  woken_.clear();
  auto const first = fds_.begin() + 2;
  return std::any_of(first, first + std::ssize(others), [](pollfd const& one) { return one.revents != 0; });
}

}  // namespace rowlock::base
