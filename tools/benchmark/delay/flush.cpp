// To be preloaded (LD_PRELOAD) into a server. Each of its flushes then takes 2 ms longer, as on a cloud's
// disk.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace {

int longer(int result) noexcept {
  if (result != 0) return result;
  timespec left{.tv_sec = 0, .tv_nsec = 2'000'000};
  while (::nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  return 0;
}

}  // namespace

extern "C" {

int fsync(int fd) { return longer(static_cast<int>(::syscall(SYS_fsync, fd))); }
int fdatasync(int fd) { return longer(static_cast<int>(::syscall(SYS_fdatasync, fd))); }
}
