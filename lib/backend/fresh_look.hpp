#pragma once

#include <rowlock/types.hpp>

namespace rowlock::backend {

/// Remembers that a session was just seen alive: the next statement need not look at the socket again. Counts
/// once, for a few milliseconds. Events after a look are in doubt in any case.
class fresh_look {
 public:
  void forget() noexcept { until_ = {}; }
  void remember() noexcept { until_ = boot_clock::now() + std::chrono::milliseconds(10); }
  bool use() noexcept {
    auto const until = until_;
    until_ = {};
    return until != boot_time_point{} && boot_clock::now() < until;
  }

 private:
  boot_time_point until_{};
};

}  // namespace rowlock::backend
