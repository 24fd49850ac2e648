#include "base/event.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace rowlock::base {

event::event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

event::~event() { ::close(fd_); }

void event::set() const noexcept {
  std::uint64_t const one = 1;
  (void)!::write(fd_, &one, sizeof one);
}

void event::clear() const noexcept {
  std::uint64_t drained = 0;
  (void)!::read(fd_, &drained, sizeof drained);
}

}  // namespace rowlock::base
