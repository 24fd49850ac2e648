#include "base/event.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace rowlock::base {

event::event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

event::~event() { ::close(fd_); }

void event::set() const noexcept {
  was_set_.store(true);
  std::uint64_t const one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

void event::clear() const noexcept {
  std::uint64_t drained = 0;
  (void)!::read(fd_, &drained, sizeof drained);
}

// In slices: poll's clock stands still while the machine sleeps, the deadline's does not.
bool wait_for(event const& e, boot_time_point deadline) noexcept {
  using namespace std::chrono_literals;
  for (;;) {
    auto const left = std::clamp<std::chrono::nanoseconds>(deadline - boot_clock::now(), 0ns, 1s);
    bool const forever = deadline == boot_time_point::max();
    pollfd one{e.fd(), POLLIN, 0};
    auto const ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    if (::poll(&one, 1, forever ? -1 : static_cast<int>(ms)) > 0) {
      (void)e.was_set_.load();
      return true;
    }
    if (left == 0ns) return false;
  }
}

}  // namespace rowlock::base
