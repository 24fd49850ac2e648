#include "base/fork_epoch.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <new>

namespace rowlock::base {
namespace {

using epoch = std::atomic<unsigned>;

epoch last{0};      // that any thread of this process or its parents wanted
epoch fallback{0};  // where the kernel can't empty a page

void empty_fallback() { fallback = 0; }

/// 0 in a new child. The kernel empties the page there (Linux 4.14), also after a fork that runs no handler:
/// _Fork(), clone(2). To compare process ids would be a system call each time.
epoch& current() noexcept {
  auto const size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) {
    if (::madvise(page, size, MADV_WIPEONFORK) == 0) return *::new (page) epoch(0);
    ::munmap(page, size);
  }
  ::pthread_atfork(nullptr, nullptr, empty_fallback);
  return fallback;
}

}  // namespace

unsigned fork_epoch() noexcept {
  static epoch& now = current();
  if (auto const known = now.load(std::memory_order_relaxed)) return known;
  // Another number than the parent's, also if the parent is just here itself.
  unsigned none = 0;
  auto const mine = ++last;
  return now.compare_exchange_strong(none, mine) ? mine : none;
}

}  // namespace rowlock::base
