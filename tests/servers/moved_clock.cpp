// To be preloaded (LD_PRELOAD) into a program whose wall clock a test moves: that clock differs from the real
// one by what the file $ROWLOCK_MOVED_CLOCK says, a 64-bit number of seconds in the machine's own form, which
// may be written to at any time. Other clocks and how long anybody waits are not touched.
//
// libfaketime has a moment of nonsense when its file changes while another thread asks for the time (year
// 586288), on which InnoDB ends itself, and a server with threads that wait for short times keeps two
// processors busy under it.

#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

std::int64_t const* moved_by;

__attribute__((constructor)) void open_file() {
  char const* const file = std::getenv("ROWLOCK_MOVED_CLOCK");
  int const fd = file == nullptr ? -1 : ::open(file, O_RDONLY | O_CLOEXEC);
  void* const there = fd < 0 ? MAP_FAILED : ::mmap(nullptr, sizeof *moved_by, PROT_READ, MAP_SHARED, fd, 0);
  if (there == MAP_FAILED) {
    std::perror("the file of $ROWLOCK_MOVED_CLOCK");
    std::abort();
  }
  ::close(fd);
  moved_by = static_cast<std::int64_t const*>(there);
}

std::int64_t offset() { return moved_by == nullptr ? 0 : __atomic_load_n(moved_by, __ATOMIC_RELAXED); }

bool is_wall_clock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

/// What a function that waits until some time was given: by the wall clock, or by the one since the machine
/// started, which was not 30 years ago.
struct deadline {
  explicit deadline(timespec const& given)
      : clock(given.tv_sec > 1'000'000'000 ? CLOCK_REALTIME : CLOCK_MONOTONIC), real(given) {
    if (clock == CLOCK_REALTIME) real.tv_sec -= offset();
  }
  clockid_t clock;
  timespec real;
};

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (::syscall(SYS_clock_gettime, clock, now) != 0) return -1;
  if (is_wall_clock(clock)) now->tv_sec += offset();
  return 0;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  *now = {.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* where) noexcept {
  timespec exact;
  clock_gettime(CLOCK_REALTIME, &exact);
  if (where != nullptr) *where = exact.tv_sec;
  return exact.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, timespec const* until) {
  deadline const d(*until);
  return ::pthread_cond_clockwait(c, m, d.clock, &d.real);
}

int pthread_mutex_timedlock(pthread_mutex_t* m, timespec const* until) noexcept {
  deadline const d(*until);
  return ::pthread_mutex_clocklock(m, d.clock, &d.real);
}

int pthread_rwlock_timedrdlock(pthread_rwlock_t* l, timespec const* until) noexcept {
  deadline const d(*until);
  return ::pthread_rwlock_clockrdlock(l, d.clock, &d.real);
}

int pthread_rwlock_timedwrlock(pthread_rwlock_t* l, timespec const* until) noexcept {
  deadline const d(*until);
  return ::pthread_rwlock_clockwrlock(l, d.clock, &d.real);
}

int sem_timedwait(sem_t* s, timespec const* until) {
  deadline const d(*until);
  return ::sem_clockwait(s, d.clock, &d.real);
}
}
