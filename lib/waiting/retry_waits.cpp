#include "waiting/retry_waits.hpp"

#include <algorithm>
#include <random>

#include "base/calls.hpp"

namespace rowlock::waiting {

using namespace std::chrono_literals;

double random_part() {
  thread_local std::minstd_rand generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(generator);
}

std::optional<std::chrono::milliseconds> retry_waits::next(
    holder_info const* holder, std::optional<std::chrono::milliseconds> can_be_had_in) {
  if (options_.policy) {
    auto const wait = [&] {
      base::outside const there;
      return options_.policy(attempts_, holder);
    }();
    if (wait || !retry_forever_) return wait;
  } else if (options_.attempts > 0 && attempts_ >= options_.attempts && !retry_forever_) {
    return std::nullopt;
  }
  auto const jittered =
      std::chrono::duration<double, std::milli>(backoff_) * (1 - options_.jitter * random_part());
  backoff_ = std::min(backoff_ * 2, options_.longest);
  auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(jittered);
  if (can_be_had_in) wait = std::min(wait, *can_be_had_in);
  return std::max(1ms, wait);
}

std::chrono::nanoseconds retry_waits::short_wait() const {
  auto const part = std::chrono::duration<double, std::milli>(attempts_ * random_part());
  return 1ms + std::chrono::duration_cast<std::chrono::microseconds>(part);
}

}  // namespace rowlock::waiting
