#pragma once
// How long one call has seen a row unchanged, by its own boot clock. For takeover::observed, and if the
// database's clock went back (lib/doc/lease.md).

#include <chrono>
#include <optional>

#include "strategy/locking_strategy.hpp"
#include "waiting/observations.hpp"

namespace rowlock::managing {

/// Used by one thread.
class watched_row {
 public:
  /// Call it after the reply that showed the row, in this incarnation of the database. `over_calls`:
  /// observations of the manager's other calls count.
  /// @return the term that can be taken over now
  std::optional<strategies::superseded> look(strategies::term_row const&, std::int64_t incarnation,
                                             waiting::observations& of_manager, bool over_calls);
  void forget() noexcept { seen_.reset(); }

  /// When the last seen term can be taken over by observation. Empty: not, or unknown.
  std::optional<boot_time_point> ripe() const noexcept {
    return seen_ ? std::optional(seen_->ripe()) : std::nullopt;
  }
  /// The time until the last seen term can be taken over. Empty: unknown.
  std::optional<std::chrono::milliseconds> can_be_had_in(strategies::term_row const& seen) const;

 private:
  struct observation {
    term_id term;
    std::int64_t renewals = 0;
    std::int64_t incarnation = 0;
    std::chrono::milliseconds silence{0};
    boot_time_point since;
    boot_time_point ripe() const noexcept;
  };
  std::optional<observation> seen_;
};

}  // namespace rowlock::managing
