#pragma once
// Takes whose outcome is unknown, of one name or of several. All calls that take follow this rule:
// - A take is noted before it is sent. After any exception from then on, it is released.
// - A reply settles the take: it was refused, or the caller holds the granted locks.
// - A take without a reply is in doubt. The server might grant it even later, because a statement runs on
//   after its session was given up. A take that its own terms refused is in doubt, too: the reply to its
//   grant was lost.
// - Rows with all terms of the take prove the grant. Trust counts from when the take was sent. A row can be
//   read and still be forgotten (its commit waits for a standby). A renewal proves that the row is durable.
// - A grant whose reply comes after trust has ended is refused.
// - Takes in doubt that are left at the end of the call, or are too many, go to the renewer. It
//   tries to release them for as long as the server might go on with them.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <span>
#include <vector>

#include "manager/engine.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::managing {

struct sent_take {
  std::vector<strategies::name_and_term> what;
  int drawn = 1;                        ///< tokens for each name
  boot_time_point sent_at{};            ///< trust counts from here
  std::vector<fencing_token> tokens{};  ///< the lowest for each name, once found in the rows
};

/// The takes of one call. Used by one thread.
class doubtful_takes {
 public:
  struct manner {
    rowlock::strategy strategy;
    rowlock::takeover takeover;
    std::chrono::milliseconds ttl;
    bool fencing;
  };
  doubtful_takes(engine&, manner) noexcept;
  ~doubtful_takes();
  doubtful_takes(doubtful_takes const&) = delete;
  doubtful_takes& operator=(doubtful_takes const&) = delete;

  /// Notes a take before it is sent, of the same names each time. Precondition: the last one was not granted.
  void send(std::vector<strategies::name_and_term>, int drawn = 1);
  /// The last take. Null if it is settled or in doubt.
  sent_take* sent() noexcept { return sent_ ? &*sent_ : nullptr; }
  /// The take was refused, or its holds release it from now on.
  void settle() noexcept { sent_.reset(); }
  void reply_was_lost() noexcept;
  void failed(errc) noexcept;
  /// Releases the last take, at once or by the renewer.
  void give_back(backend::connection&) noexcept;
  /// Leaves the last take to the renewer.
  void abandon() noexcept;
  /// @throws error(errc::unreachable) if trust has ended. The caller still has to release the take
  void refuse_if_late(boot_time_point trusted_until);

  enum class outcome {
    absent,   ///< no row has their terms
    granted,  ///< sent() has the granted take, with its tokens
    unkept    ///< granted, but not renewed: gone, revoked, at its hard limit, or locked
  };
  bool none() const noexcept { return doubts_.empty(); }
  /// Reads the rows. Precondition: not none(). @throws error
  outcome look(backend::connection&);
  /// For rows that were just read. @throws error
  outcome look_at(backend::connection&, std::span<std::optional<strategies::term_row> const>);

  /// No rows could be read since the last lost reply.
  bool in_doubt() const noexcept { return in_doubt_; }
  bool came_too_late() const noexcept { return came_too_late_; }

 private:
  using terms = std::vector<strategies::name_and_term>;
  bool are_kept(backend::connection&, terms const&);
  void read_tokens(std::span<std::optional<strategies::term_row> const>);
  void give_back(backend::connection&, terms const&) noexcept;
  void give_back_later(strategies::name_and_term const&, boot_time_point from,
                       boot_time_point may_come_until = {}) noexcept;
  void give_back_later(sent_take const&) noexcept;

  engine& engine_;
  manner const how_;
  strategies::locking_strategy const& strategy_;
  std::optional<sent_take> sent_;
  std::vector<sent_take> doubts_;
  bool in_doubt_ = false;
  bool came_too_late_ = false;
};

}  // namespace rowlock::managing
