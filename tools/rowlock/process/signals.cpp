#include "process/signals.hpp"

#include <sys/resource.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <system_error>

namespace rowlock::tool {

signal_setup::signal_setup() {
  ::sigemptyset(&passed_on_);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &original_mask_);
  for (int const signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN && ::sigismember(&original_mask_, signal) == 0)
      ::sigaddset(&passed_on_, signal);
  }
  // An inherited SIG_IGN would have the kernel reap children itself, and their status be lost.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &original_child_);

  sigset_t blocked = passed_on_;
  ::sigaddset(&blocked, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

void signal_setup::restore() const noexcept {
  ::sigaction(SIGCHLD, &original_child_, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &original_mask_, nullptr);
}

void die_by(int signal) noexcept {
  rlimit const no_core{0, 0};  // ours would tell nothing
  ::setrlimit(RLIMIT_CORE, &no_core);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  ::kill(::getpid(), signal);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  ::_exit(128 + signal);
}

descriptor signal_setup::open() const {
  descriptor fd(::signalfd(-1, &passed_on_, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw std::system_error(errno, std::generic_category(), "signalfd");
  return fd;
}

}  // namespace rowlock::tool
