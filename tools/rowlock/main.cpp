#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>

#include "cli.hpp"
#include "process/signals.hpp"

namespace {

/// With one of them closed, a socket of ours could become the command's stdin, or a message go into the
/// database. What is opened here is closed again for the command. stdout can't be written to then: who asked
/// for output must hear that nobody got it.
void open_standard_files() {
  for (int const fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0)
      (void)::open("/dev/null", (fd == STDOUT_FILENO ? O_RDONLY : O_RDWR) | O_CLOEXEC);  // the lowest: fd
}

/// A file that is as long as it may get (ulimit -f) is an error like a full disk, not the end of the process.
/// A handler, because it ends with exec: the command has what it would have without us.
void outlive_long_files() {
  struct sigaction now {};
  ::sigaction(SIGXFSZ, nullptr, &now);
  if (now.sa_handler != SIG_DFL) return;
  now.sa_handler = [](int) {};
  now.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &now, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  outlive_long_files();
  // Written at the end, so that output_written() hears why if it can't be; a person is not kept waiting.
  static std::array<char, 1 << 16> buffer;  // glibc heeds the size only of one that it is given
  if (::isatty(STDOUT_FILENO) != 1) std::setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());
  auto const end = rowlock::tool::output_written(rowlock::tool::run_program(argc, argv));
  if (end.signal) rowlock::tool::die_by(*end.signal);
  return end.status;
}
