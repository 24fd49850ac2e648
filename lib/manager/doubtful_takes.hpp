#pragma once
// Takes whose fate is not known, of one name or of several. Every call that takes follows the rule that
// stands here, and nowhere else:
// - A take is written down before it is sent. Whatever is thrown from then on, it is given back.
// - A reply settles it: it was refused, or the caller has in hand what was granted.
// - Its reply was lost: it is in doubt. It may have been granted, or may yet be: a server goes on with a
//   statement after its session was given up. So is a take that was refused by its own terms: the reply to
//   its grant was no good.
// - Rows with all of its terms say that it was granted. Trust counts from when it was sent. A row that can be
//   read may yet be forgotten (its commit waits for a standby): a renewal behind it says that it is kept.
// - A grant whose trust is over when its reply comes is none.
// - What is in doubt at the end of the call, or would be too much to look for, is given back without it, for
//   as long as the server may go on with it.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <span>
#include <vector>

#include "manager/engine.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::managing {

/// A take that was sent.
struct sent_take {
  std::vector<strategies::name_and_term> what;
  int drawn = 1;                        ///< tokens, for each name
  boot_time_point sent_at{};            ///< trust counts from here
  std::vector<fencing_token> tokens{};  ///< the first for each name, once they were found in its rows
};

/// Of one call. Used by one thread.
class doubtful_takes {
 public:
  /// What its takes have in common.
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

  /// One is about to be sent, of the same names each time. The one before it came to nothing.
  void send(std::vector<strategies::name_and_term>, int drawn = 1);
  /// The last one; null if its fate is known, or it is in doubt.
  sent_take* sent() noexcept { return sent_ ? &*sent_ : nullptr; }
  /// It was refused, or others see to it from now on.
  void settle() noexcept { sent_.reset(); }
  void reply_was_lost() noexcept;
  /// The attempt ended with this error.
  void failed(errc) noexcept;
  /// Gives it back, at once if that can be done.
  void give_back(backend::connection&) noexcept;
  /// Gives it back later, if there is one.
  void abandon() noexcept;
  /// Of a grant. @throws error(errc::unreachable) if its trust is over; it is still to be given back
  void refuse_if_late(boot_time_point trusted_until);

  enum class fate {
    absent,   ///< none of them is there
    granted,  ///< one of them: sent() has it, with its tokens
    unkept    ///< as granted, but it can't be renewed: gone, revoked, at its hard limit, or locked
  };
  bool none() const noexcept { return doubts_.empty(); }
  /// What has become of those that are in doubt. @throws error
  fate look(backend::connection&);
  /// As the rows of the names say, which were just read. @throws error
  fate look_at(backend::connection&, std::span<std::optional<strategies::term_row> const>);

  /// Since the last lost reply the rows could not be looked at.
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
