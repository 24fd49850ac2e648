#pragma once

#include <atomic>

#include "base/fork_epoch.hpp"

namespace rowlock::base {

/// The one T of this process. A forked child gets a new one, because a thread that it lacks can have locked
/// the parent's. The old one is never destroyed: callers might still use it.
template <class T>
T& per_process() {
  struct instance {
    unsigned epoch;
    T object;
  };
  static std::atomic<instance*> current{nullptr};
  auto const epoch = base::fork_epoch();
  auto* seen = current.load(std::memory_order_acquire);
  while (seen == nullptr || seen->epoch != epoch) {
    auto* fresh = new instance{epoch, {}};
    if (current.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) return fresh->object;
    delete fresh;
  }
  return seen->object;
}

}  // namespace rowlock::base
