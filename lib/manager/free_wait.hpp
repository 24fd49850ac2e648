#pragma once
// Waits until a lock has no holder, without taking it, by polling. No wait queue: its first waiter is
// expected to take the lock.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <stop_token>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/steps.hpp"
#include "manager/stop_request.hpp"

namespace rowlock::managing {

/// One call: see lock_call.
class free_wait {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  free_wait(engine&, lock_spec const&, std::optional<time_point> deadline, std::stop_token,
            waiting::bell& to_ring);
  free_wait(free_wait const&) = delete;
  free_wait& operator=(free_wait const&) = delete;

  /// The result is false if the name is still held.
  /// @throws error. A retryable one only if no time is left
  steps<bool>::need next() { return run_.next(stop_.now()); }
  void ask();

 private:
  steps<bool> run();
  bool is_free();
  time_point next_look(time_point began) const;

  engine& engine_;
  lock_spec const& spec_;
  std::optional<time_point> const deadline_;
  stop_request const stop_;
  bool free_ = false;
  std::optional<error> failure_;
  std::optional<std::chrono::milliseconds> ends_in_;  ///< of the seen term
  steps<bool> run_;                                   ///< last: it uses the others
};

}  // namespace rowlock::managing
