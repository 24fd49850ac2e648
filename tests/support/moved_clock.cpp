#include "support/moved_clock.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace rowlock::test {

std::string moved_clock_library() { return ROWLOCK_MOVED_CLOCK; }

void move_clock(std::string const& file, std::chrono::seconds offset) {
  // In one piece: others read it meanwhile.
  std::int64_t const number = offset.count();
  int const fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  bool const written = fd >= 0 && ::pwrite(fd, &number, sizeof number, 0) == sizeof number;
  int const why = errno;
  if (fd >= 0) ::close(fd);
  if (!written) throw std::system_error(why, std::system_category(), file);
}

std::vector<std::string> with_moved_clock(std::string const& file) {
  return {"/usr/bin/env", "LD_PRELOAD=" + moved_clock_library(), "ROWLOCK_MOVED_CLOCK=" + file};
}

}  // namespace rowlock::test
