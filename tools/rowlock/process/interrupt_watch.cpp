#include "process/interrupt_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace rowlock::tool {

interrupt_watch::interrupt_watch(int signals, std::function<void(int)> on_signal)
    : on_signal_(std::move(on_signal)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::jthread([this, signals] { run(signals); });
}

interrupt_watch::~interrupt_watch() {
  std::uint64_t const one = 1;
  [[maybe_unused]] auto const told = ::write(stop_.get(), &one, sizeof one);
}

void interrupt_watch::run(int signals) {
  for (;;) {
    std::array<pollfd, 2> fds{{{stop_.get(), POLLIN, 0}, {signals, POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) return;
    signalfd_siginfo info{};
    if (::read(signals, &info, sizeof info) == sizeof info)
      return on_signal_(static_cast<int>(info.ssi_signo));
  }
}

}  // namespace rowlock::tool
