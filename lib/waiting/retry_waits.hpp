#pragma once
// The pauses between the attempts of one call, by its retry_options. None goes beyond the moment when the
// lock can be taken.

#include <chrono>
#include <optional>
#include <rowlock/options.hpp>

namespace rowlock::waiting {

/// A random number from 0 to 1, so that callers that were refused together do not return together.
double random_part();

/// Used by one thread.
class retry_waits {
 public:
  /// `retry_forever`: for callers without a "not taken" result. It overrides bounds of attempts and policies.
  retry_waits(retry_options const& options, bool retry_forever)
      : options_(options), retry_forever_(retry_forever), backoff_(options.first) {}

  void count_attempt() noexcept { ++attempts_; }
  int attempts() const noexcept { return attempts_; }
  void begin_anew() noexcept {
    attempts_ = 0;
    backoff_ = options_.first;
  }

  /// `holder`: as last seen, or null. `can_be_had_in`: an upper bound, except for the program's policy.
  /// @return the pause before the next attempt; nothing if there is none
  std::optional<std::chrono::milliseconds> next(holder_info const* holder,
                                                std::optional<std::chrono::milliseconds> can_be_had_in);

  /// A short random pause before retrying when a row is locked but not held.
  std::chrono::nanoseconds short_wait() const;

 private:
  retry_options const& options_;
  bool retry_forever_;
  int attempts_ = 0;
  std::chrono::milliseconds backoff_;
};

}  // namespace rowlock::waiting
