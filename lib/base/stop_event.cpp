#include "base/stop_event.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace rowlock::base {
namespace {

int make_event() {
  int const fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  return fd;
}

}  // namespace

void stop_event::trigger::operator()() const noexcept {
  std::uint64_t const one = 1;
  (void)!::write(fd, &one, sizeof one);
}

stop_event::stop_event(std::stop_token token)
    : fd_(make_event()), token_(std::move(token)), callback_(token_, trigger{fd_}) {}

stop_event::~stop_event() { ::close(fd_); }

}  // namespace rowlock::base
