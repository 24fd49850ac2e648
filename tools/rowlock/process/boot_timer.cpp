#include "process/boot_timer.hpp"

#include <sys/timerfd.h>

#include <cerrno>
#include <system_error>

namespace rowlock::tool {

boot_timer::boot_timer() : fd_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!fd_) throw std::system_error(errno, std::generic_category(), "timerfd_create");
}

void boot_timer::set(boot_time_point when) noexcept {
  if (when == never) return clear();
  // Zero would disarm the timer: a time before boot means now.
  auto const ns = std::max<std::int64_t>(1, when.time_since_epoch().count());
  itimerspec spec{};
  spec.it_value.tv_sec = ns / 1'000'000'000;
  spec.it_value.tv_nsec = ns % 1'000'000'000;
  ::timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void boot_timer::clear() noexcept {
  itimerspec const off{};
  ::timerfd_settime(fd_.get(), 0, &off, nullptr);
}

}  // namespace rowlock::tool
