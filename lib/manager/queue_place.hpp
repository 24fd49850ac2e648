#pragma once
// Where one call stands at the wait queue of its name, and how often it looks at the row when it is first
// there.

#include <chrono>
#include <optional>
#include <string>

#include "waiting/wait_queues.hpp"

namespace rowlock::managing {

/// Used by one thread at a time. Leaves the wait queue when destroyed, without waiting for the server.
class queue_place {
 public:
  /// All three outlive it.
  queue_place(waiting::wait_queues& g, std::string const& name, owner_id const& who) noexcept
      : wait_queues_(g), name_(name), who_(who) {}

  /// Whether the wait queue is this call's: it is first in line.
  bool got() const noexcept { return ticket_.has_value(); }
  /// Whether it stood in line, the last time that it asked for it. If not, there was no place for it.
  bool stood() const noexcept { return stood_; }

  /// Stands in line until `until` at most.
  void stand(boot_time_point until, std::stop_token const&) noexcept;
  /// It has the wait queue of who gave the lock on.
  void accept_hand_off(waiting::wait_queues::ticket) noexcept;
  /// Who is first in line looks again then: whoever gives the lock back without having stood here rings
  /// nobody. `often`: where most do.
  std::chrono::steady_clock::time_point next_look(std::optional<std::chrono::milliseconds> can_be_had_in,
                                                  bool often = false) const;

  /// For the lock that was got, with which it is kept.
  std::optional<waiting::wait_queues::ticket> take() noexcept;
  /// Nothing if it has none; else one round trip, for which there is time until `deadline`.
  void leave(boot_time_point deadline) noexcept;

 private:
  waiting::wait_queues& wait_queues_;
  std::string const& name_;
  owner_id const& who_;
  std::optional<waiting::wait_queues::ticket> ticket_;
  std::chrono::steady_clock::time_point since_;
  bool stood_ = false;
};

}  // namespace rowlock::managing
