#pragma once
// One call's attempts to take several locks, all or none: as `attempts`, for each name.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <stop_token>
#include <vector>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/watched_row.hpp"

namespace rowlock::managing {

/// Used by one thread.
class attempts_at_all {
 public:
  /// `specs` outlive it: the same but for their names, in the order of those.
  attempts_at_all(engine&, std::vector<lock_spec> const& specs, owner_id, std::stop_token);
  /// What may have been granted without our hearing of it is given back as soon as that can be done.
  ~attempts_at_all();
  attempts_at_all(attempts_at_all const&) = delete;
  attempts_at_all& operator=(attempts_at_all const&) = delete;

  /// One attempt. @return true if all locks were had: granted() has them, in the order of the names. If not,
  /// busy() and contended() say what was in the way, and nothing was taken
  /// @throws error; in_doubt() tells whether this or a former attempt may have been granted all the same
  bool make();

  std::vector<holding::grant_facts>& granted() noexcept { return granted_; }
  /// They are held: from now on others see to it that they are given back.
  void are_held() noexcept { sent_.reset(); }
  /// The first name that somebody has, as last seen.
  std::optional<std::size_t> busy() const noexcept { return busy_; }
  /// Who has that.
  holder_info const* holder() const noexcept { return busy_ ? &seen_[*busy_]->holder : nullptr; }
  /// How soon that can be had, if nobody gives it back before; empty if that is not known.
  std::optional<std::chrono::milliseconds> can_be_had_in() const;
  /// The last attempt failed although nobody holds any of them.
  bool contended() const noexcept { return contended_; }
  /// Since the last lost reply the rows could not be looked at.
  bool in_doubt() const noexcept { return in_doubt_; }
  /// They were granted, and trust was over when the reply came.
  bool came_too_late() const noexcept { return came_too_late_; }

 private:
  using rows = std::vector<std::optional<strategies::term_row>>;
  using to_be_superseded = std::vector<std::optional<strategies::superseded>>;
  /// An attempt whose reply was lost: all of it may have been granted, or may yet be.
  struct doubt {
    std::vector<term_id> terms;
    boot_time_point sent_at;
  };

  bool ask();
  bool take(backend::connection&, to_be_superseded const&);
  void saw(rows);
  bool adopt(backend::connection&, rows const&);
  bool accept(backend::connection&, std::vector<fencing_token> const&);  ///< of what is in sent_
  std::optional<to_be_superseded> what_may_be_superseded();
  void give_back(backend::connection&, std::vector<strategies::name_and_term> const&) noexcept;
  void give_back_later(std::string const& name, term_id const&, boot_time_point sent_at,
                       boot_time_point may_come_until = {}) noexcept;
  void give_back_later(doubt const&) noexcept;
  void give_back_sent() noexcept;
  void remember_sent();
  bool has_sent(rows const&) const noexcept;
  std::vector<strategies::name_and_term> with(std::vector<term_id> const&) const;

  engine& engine_;
  std::vector<lock_spec> const& specs_;
  lock_spec const& any_;  ///< for what is the same for all
  strategies::locking_strategy const& strategy_;
  owner_id const owner_;
  std::stop_token const stop_;

  bool contended_ = false;
  bool in_doubt_ = false;
  bool came_too_late_ = false;
  std::optional<doubt> sent_;  ///< last: see attempts
  std::vector<doubt> doubts_;
  rows seen_;
  std::optional<std::size_t> busy_;
  std::vector<watched_row> watch_;
  std::vector<holding::grant_facts> granted_;
};

}  // namespace rowlock::managing
