#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "cli.hpp"
#include "process/signals.hpp"

namespace {

/// With one of them closed, a socket of ours could become the command's stdin, or a message go into the
/// database. What is opened here is closed again for the command.
void open_standard_files() {
  int fd = 0;
  do {
    fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_files();
  // Written at the end, so that output_written() hears why if it can't be; a person is not kept waiting.
  static std::array<char, 1 << 16> buffer;  // glibc heeds the size only of one that it is given
  if (::isatty(STDOUT_FILENO) != 1) std::setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());
  auto const end = rowlock::tool::output_written(rowlock::tool::run_program(argc, argv));
  if (end.signal) rowlock::tool::die_by(*end.signal);
  return end.status;
}
