#pragma once
// Strategy row_lock: the lock is the database's lock on a row of rowlock_locks, the name's anchor, in a
// transaction that stays open. So a take writes and flushes nothing, and the lock ends with its session.

#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "strategy/locking_strategy.hpp"

namespace rowlock::strategies {

class row_lock final : public locking_strategy {
 public:
  explicit row_lock(backend::statement_book const& book) : book_(book), rows_(book) {}

  /// The session then holds the lock until give_back(), or until it ends. A token is drawn on another
  /// session.
  /// @throws error(errc::strategy_mismatch); unreachable if the session ended, and the lock with it
  outcome take(backend::connection&, take_request const&, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override;
  given_back give_back(backend::connection&, name_and_term const&, std::chrono::milliseconds at_least,
                       boot_time_point deadline) const override;
  /// Marks the anchor as used, for the reaper. Skips a locked anchor. For a session without a transaction.
  void was_used(backend::connection&, std::string const& name, boot_time_point deadline) const override;
  /// @throws error(errc::read_only) if the server takes no writes. Then the session is closed.
  void ping(backend::connection&, boot_time_point deadline) const override;
  std::vector<held> holders(backend::connection&, name_range const&, boot_time_point deadline) const override;

  /// For callers that lock the row on their own session. Makes a missing anchor, and marks an old one as
  /// used, so that the reaper leaves it for a day. For a session without a transaction.
  /// @throws error(errc::strategy_mismatch), and unsupported where row locks do not exclude other sessions
  void make_ready(backend::connection&, std::string const& name, boot_time_point deadline) const;

  /// Whether only a session that looks has the row locked, as list() does where the server shows no holders.
  /// Then the row is free in a moment. For a session without a transaction.
  bool only_looked_at(backend::connection&, std::string const& name, boot_time_point deadline) const;

 private:
  bool lock_anchor(backend::connection&, take_request const&, boot_time_point deadline) const;
  refused look_closer(backend::connection&, std::string const& name, boot_time_point deadline) const;
  fencing_token draw_token(backend::connection& holder, take_request const&) const;
  [[noreturn]] void throw_refused(backend::connection&, std::string const& name,
                                  boot_time_point deadline) const;
  std::set<std::string> free_anchors(backend::connection&, std::span<std::string const> names,
                                     boot_time_point deadline) const;
  void make_anchor(backend::connection&, std::string const& name, boot_time_point deadline) const;
  std::vector<held> locked_anchors(backend::connection&, name_range const&, boot_time_point deadline) const;

  backend::statement_book const& book_;
  term_rows rows_;
};

}  // namespace rowlock::strategies
