#pragma once
// Waiting until nobody holds a lock, without taking it: by looking at it again and again. It stands at no
// gate, where whoever is rung is expected to take the lock.

#include <chrono>
#include <optional>
#include <stop_token>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing {

/// Made for one call.
class free_wait {
 public:
  free_wait(engine& e, lock_spec const& spec, std::optional<std::chrono::steady_clock::time_point> deadline,
            std::stop_token stop)
      : engine_(e), spec_(spec), deadline_(deadline), stop_(std::move(stop)) {}

  /// @return false if somebody holds it still
  /// @throws error; what is retryable only if there is no time left
  bool run();

 private:
  using time_point = std::chrono::steady_clock::time_point;

  bool is_free();
  /// A look; what went wrong is remembered if it may pass.
  bool look();
  time_point next_look(time_point began) const;

  engine& engine_;
  lock_spec const& spec_;
  std::optional<time_point> const deadline_;
  std::stop_token const stop_;
  std::optional<error> failure_;
  std::optional<std::chrono::milliseconds> ends_in_;  ///< the term that was seen
};

}  // namespace rowlock::managing
