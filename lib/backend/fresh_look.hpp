#pragma once

#include <rowlock/types.hpp>

namespace rowlock::backend {

/// Whether a session was seen alive a moment ago: who borrows one looks at its socket, and the statement that
/// is sent next need not look again. Counts once, and not for long: what happens after a look is in doubt in
/// any case.
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
