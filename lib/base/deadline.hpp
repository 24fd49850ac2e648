#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace rowlock::base {

/// Now plus `timeout` (negative: 0). Empty (no deadline) if beyond the clock's range.
inline std::optional<std::chrono::steady_clock::time_point> deadline_after(
    std::chrono::nanoseconds timeout) noexcept {
  using std::chrono::steady_clock;
  auto const now = steady_clock::now();
  if (timeout > steady_clock::time_point::max() - now) return std::nullopt;
  return now + std::max(timeout, std::chrono::nanoseconds(0));  // so that the time left can be calculated
}

}  // namespace rowlock::base
