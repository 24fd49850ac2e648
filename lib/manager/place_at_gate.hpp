#pragma once
// Where one call stands at the gate of its name, and how often it looks at the row when it is first there.

#include <chrono>
#include <optional>
#include <string>

#include "waiting/gates.hpp"

namespace rowlock::managing {

/// Used by one thread at a time. Leaves the gate when destroyed, without waiting for the server.
class place_at_gate {
 public:
  /// All three outlive it.
  place_at_gate(waiting::gates& g, std::string const& name, owner_id const& who) noexcept
      : gates_(g), name_(name), who_(who) {}

  /// Whether the gate is this call's: it is first in line.
  bool got() const noexcept { return ticket_.has_value(); }
  /// Whether it stood in line, the last time that it asked for it. If not, there was no place for it.
  bool stood() const noexcept { return stood_; }

  /// Stands in line until `until` at most.
  void stand(boot_time_point until, std::stop_token const&) noexcept;
  /// It has the gate of who gave the lock on.
  void inherit(waiting::gates::ticket) noexcept;
  /// Who is first in line looks again then: whoever gives the lock back without having stood here rings
  /// nobody. `often`: where most do.
  std::chrono::steady_clock::time_point next_look(std::optional<std::chrono::milliseconds> can_be_had_in,
                                                  bool often = false) const;

  /// For the lock that was got, with which it is kept.
  std::optional<waiting::gates::ticket> take() noexcept;
  /// Nothing if it has none; else one round trip, for which there is time until `deadline`.
  void leave(boot_time_point deadline) noexcept;

 private:
  waiting::gates& gates_;
  std::string const& name_;
  owner_id const& who_;
  std::optional<waiting::gates::ticket> ticket_;
  std::chrono::steady_clock::time_point since_;
  bool stood_ = false;
};

}  // namespace rowlock::managing
