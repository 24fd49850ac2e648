#pragma once
// How long one call waits between its attempts: what retry_options say, and never past the moment at which
// the lock can be had.

#include <chrono>
#include <optional>
#include <rowlock/options.hpp>

namespace rowlock::waiting {

/// A part between 0 and 1 by chance, so that those who were refused together do not come back together.
double random_part();

/// Used by one thread.
class retry_waits {
 public:
  /// `insistent`: for callers that can't be told "not got": a bound of attempts does not count.
  retry_waits(retry_options const& options, bool retry_forever)
      : options_(options), retry_forever_(retry_forever), backoff_(options.first) {}

  void count_attempt() noexcept { ++attempts_; }
  int attempts() const noexcept { return attempts_; }
  void begin_anew() noexcept {
    attempts_ = 0;
    backoff_ = options_.first;
  }

  /// `holder`: as last seen, null if it is not known. `can_be_had_in`: no wait of ours is longer; a policy's
  /// is as it says.
  /// @return how long to wait for the next attempt; nothing if there is to be none
  std::optional<std::chrono::milliseconds> next(holder_info const* holder,
                                                std::optional<std::chrono::milliseconds> can_be_had_in);

  /// The part of a moment after which who met a lock of nobody's tries again.
  std::chrono::nanoseconds short_wait() const;

 private:
  retry_options const& options_;
  bool retry_forever_;
  int attempts_ = 0;
  std::chrono::milliseconds backoff_;
};

}  // namespace rowlock::waiting
