#pragma once
// Strategy row_lock: the lock is the database's own lock on a row of rowlock_locks, the name's anchor, in a
// transaction that stays open as long as it is held. Nothing is written, so nothing is flushed, and the
// server gives it back when the session ends.

#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "strategy/term_rows.hpp"

namespace rowlock::strategies {

class row_lock {
 public:
  explicit row_lock(backend::statement_book const& book) : book_(book), rows_(book) {}

  /// How long a caller waits.
  struct patience {
    bool wait = true;          ///< false: only look
    boot_time_point deadline;  ///< of the wait in the server; of the look, too
    std::stop_token stop;
    std::chrono::nanoseconds reply_timeout;  ///< for each reply of the server
  };

  struct locked {
    bool anchor_is_old = false;  ///< touch() it when the lock was given back, or the reaper may take it
  };

  /// The session then holds the lock until give_back(), or as long as it lives.
  /// @throws error(errc::row_locked) when somebody else has it and the wait was over; strategy_mismatch;
  /// unreachable if the session ended, and with it whatever had been granted
  locked take(backend::connection&, std::string const& name, patience const&) const;

  /// @throws error if the session has ended before, and the lock with it
  void give_back(backend::connection&, boot_time_point deadline) const;

  /// For who locks the row on a session that is not ours: makes an anchor if there is none, and says of an
  /// old one that it is used, so that the reaper leaves it a day. On any session without a transaction.
  /// @throws error(errc::strategy_mismatch), and unsupported where such a lock is none
  void make_ready(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// On the session that holds the lock. @throws error if it has ended
  void ping(backend::connection&, boot_time_point deadline) const;

  /// Says that the anchor was used, unless somebody holds it just now. On any session without a transaction.
  void touch(backend::connection&, std::string const& name, boot_time_point deadline) const;

  struct held {
    std::string name;
    holder_info by;  ///< owner and acquired_at as far as the server tells them
  };
  /// Who holds the anchor of `name` now; of all if it is empty.
  std::vector<held> holders(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// Whether a try that found the row locked met somebody who only looks, as list does where the server does
  /// not tell who holds a row: then it is had in a moment. On any session without a transaction.
  bool only_looked_at(backend::connection&, std::string const& name, boot_time_point deadline) const;

 private:
  [[noreturn]] void throw_refused(backend::connection&, std::string const& name,
                                  boot_time_point deadline) const;
  std::set<std::string> free_anchors(backend::connection&, std::span<std::string const> names,
                                     boot_time_point deadline) const;
  void make_anchor(backend::connection&, std::string const& name, boot_time_point deadline) const;
  std::vector<held> locked_anchors(backend::connection&, std::string const& name,
                                   boot_time_point deadline) const;

  backend::statement_book const& book_;
  term_rows rows_;
};

}  // namespace rowlock::strategies
