#include "base/fork_epoch.hpp"

#include <pthread.h>

#include <atomic>

namespace rowlock::base {
namespace {

std::atomic<unsigned> epoch{0};

void count_in_child() { epoch.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

unsigned fork_epoch() noexcept {
  // Registered once: children inherit the handlers.
  [[maybe_unused]] static int const registered = ::pthread_atfork(nullptr, nullptr, count_in_child);
  return epoch.load(std::memory_order_relaxed);
}

}  // namespace rowlock::base
