#include "process/command.hpp"

#include <fcntl.h>
#include <sys/prctl.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

namespace rowlock::tool {
namespace {

[[noreturn]] void become(std::vector<std::string> command, order const& lock, boot_time_point begin_before,
                         signal_setup const& signals, pid_t parent, int exec_error) {
  // If the guardian is killed, at least the command itself goes with it at once; rowlock ends the rest. The
  // kernel sends it when the thread ends that forked: the guardian has only one. It forgets it when a program
  // is executed that sets its user id.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(126);
  ::setenv("ROWLOCK_NAME", lock.name.data(), 1);
  ::setenv("ROWLOCK_TOKEN", std::to_string(lock.token).c_str(), 1);
  ::setenv("ROWLOCK_TERM", lock.term.data(), 1);
  if (lock.database[0] != '\0')
    ::setenv("ROWLOCK_DATABASE", lock.database.data(), 1);
  else
    ::unsetenv("ROWLOCK_DATABASE");
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (auto& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  signals.restore();
  // Last of all: what was stopped before this, or in it, is noticed.
  bool const in_time = boot_clock::now() < begin_before;
  if (in_time) ::execvp(argv[0], argv.data());
  int const error = in_time ? errno : too_late_to_begin;
  [[maybe_unused]] auto const told = ::write(exec_error, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

started_command start_command(std::vector<std::string> const& command, order const& lock,
                              boot_time_point begin_before, signal_setup const& signals) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  descriptor read_end(ends[0]);
  descriptor const write_end(ends[1]);
  pid_t const parent = ::getpid();
  pid_t const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) become(command, lock, begin_before, signals, parent, write_end.get());
  return {pid, std::move(read_end)};
}

}  // namespace rowlock::tool
