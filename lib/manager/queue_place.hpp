#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "waiting/wait_queues.hpp"

namespace rowlock::managing {

/// The queue place of one call. Used by one thread at a time. Its destructor leaves the wait queue without
/// waiting for the server.
class queue_place {
 public:
  /// All three outlive the object.
  queue_place(waiting::wait_queues& g, std::string const& name, owner_id const& who) noexcept
      : wait_queues_(g), name_(name), who_(who) {}

  /// Whether the call is first in the wait queue.
  bool got() const noexcept { return ticket_.has_value(); }
  /// Whether the call has been first for as long as another call may stand.
  bool was_first_for_long() const noexcept {
    return got() && std::chrono::steady_clock::now() - since_ >= waiting::wait_queues::longest_wait;
  }
  /// Whether the last stand() found room in the wait queue.
  bool stood() const noexcept { return stood_; }

  void stand(boot_time_point until, std::stop_token const&) noexcept;
  /// Takes over the previous holder's queue place.
  void accept_hand_off(waiting::wait_queues::ticket) noexcept;
  /// The next attempt while first, because a holder that did not queue wakes no waiter. `often`: for permits.
  std::chrono::steady_clock::time_point next_look(std::optional<std::chrono::milliseconds> can_be_had_in,
                                                  bool often = false) const;

  /// The session of the place, for the next attempt: it has just been served, so it is faster than another
  /// one. Null without a place. If the session broke, the place is given up.
  backend::connection* session() noexcept;
  /// For the granted lock.
  std::optional<waiting::wait_queues::ticket> take() noexcept;
  /// One round trip, if it has a place.
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
