#include "signals.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <rowlock/types.hpp>
#include <stdexcept>
#include <system_error>

#include "printable.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

constexpr std::array<int, 3> ending{SIGINT, SIGTERM, SIGHUP};

std::sig_atomic_t volatile came = 0;
/// Readable once a signal came, so that none comes between a look and a wait.
std::array<int, 2> bell{-1, -1};

extern "C" void note(int signal) {
  int const before = errno;
  came = signal;
  char const ring = 'r';
  (void)!::write(bell[1], &ring, 1);
  errno = before;
}

std::string child;  // NOLINT(cert-err58-cpp): empty

[[noreturn]] void end_child() noexcept {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (std::exception const& e) {
    on_stderr(fmt::format("{} ended: {}\n", child, printable(e.what())));
  } catch (...) {
    on_stderr(fmt::format("{} ended\n", child));
  }
  ::_exit(1);
}

}  // namespace

void note_signals() {
  if (bell[0] < 0 && ::pipe2(bell.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe2");
  ::signal(SIGPIPE, SIG_IGN);
  for (int const each : ending) {
    struct sigaction now {};
    ::sigaction(each, nullptr, &now);
    if (now.sa_handler == SIG_IGN) continue;  // as by nohup
    now = {};
    now.sa_handler = note;
    now.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    ::sigaction(each, &now, nullptr);
  }
}

bool signal_came() noexcept { return came != 0; }

void look_for_signal() {
  if (came != 0) throw std::runtime_error(fmt::format("{}: nothing was judged", ::strsignal(came)));
}

void end_by_signal() noexcept {
  if (came == 0) return;
  ::signal(came, SIG_DFL);
  ::raise(came);
}

void pass(std::chrono::milliseconds time) {
  auto const end = boot_clock::now() + time;
  for (auto remaining = time; remaining > 0ms && came == 0;
       remaining = std::chrono::ceil<std::chrono::milliseconds>(end - boot_clock::now())) {
    pollfd rings{bell[0], POLLIN, 0};
    ::poll(&rings, 1,
           static_cast<int>(std::min<std::int64_t>(remaining.count(), std::numeric_limits<int>::max())));
  }
}

void be_child_of(pid_t parent, std::string const& who) {
  for (int const each : ending) ::signal(each, SIG_IGN);
  // Who is stopped would stay so for ever if the parent was killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before that was said
  child = who;
  std::set_terminate(end_child);
}

int run_command(std::string const& command) {
  auto const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    ::signal(SIGINT, SIG_IGN);
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGPIPE, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("by signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("with status {}", WEXITSTATUS(status));
}

}  // namespace rowlock::torture
