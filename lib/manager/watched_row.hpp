#pragma once
// Since when one call has seen a row unchanged, by its own clock: takeover::observed, or the database's clock
// went back.

#include <chrono>
#include <optional>

#include "strategy/locking_strategy.hpp"
#include "waiting/observations.hpp"

namespace rowlock::managing {

/// Used by one thread.
class watched_row {
 public:
  /// After the reply that showed the row. `over_calls`: what other calls of this manager have seen counts,
  /// too.
  /// @return what may be taken now
  std::optional<strategies::superseded> look(strategies::term_row const&, waiting::observations& of_manager,
                                             bool over_calls);

  /// How soon the term that was seen last can be had, if nobody gives it back before; empty if that is not
  /// known.
  std::optional<std::chrono::milliseconds> can_be_had_in(strategies::term_row const& seen) const;

 private:
  struct observation {
    term_id term;
    std::int64_t renewals = 0;
    std::chrono::milliseconds silence{0};
    boot_time_point since;
    boot_time_point ripe() const noexcept;
  };
  std::optional<observation> seen_;  ///< if watching it is of use
};

}  // namespace rowlock::managing
