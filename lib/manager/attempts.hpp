#pragma once
// One call's attempts to take a lock: what each of them asks the database, and what they have found out
// together. Waits for nothing but replies; when the next one is made is the acquirer's business.

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
class attempts {
 public:
  attempts(engine&, lock_spec const&, owner_id, std::stop_token);
  /// What may have been granted without our hearing of it is given back as soon as that can be done.
  ~attempts();
  attempts(attempts const&) = delete;
  attempts& operator=(attempts const&) = delete;

  /// One attempt. `wait_until`: for a strategy that waits in the server; empty: it only looks. `where`: for
  /// one that counts.
  /// @return true if the lock was had: granted() has it. If not, seen() and contended() say what was in the
  /// way
  /// @throws error; in_doubt() tells whether this or a former attempt may have been granted all the same
  bool make(std::optional<boot_time_point> wait_until, strategies::wanted_permit::place where);

  struct grant {
    holding::grant_facts facts;
    std::optional<holding::session_pinger::anchor> session{};  ///< of a strategy that owns it
  };
  /// Null if there was none.
  grant* granted() noexcept { return granted_ ? &*granted_ : nullptr; }
  /// It is held: from now on others see to it that it is given back.
  void is_held() noexcept { sent_.reset(); }

  /// The row as last seen, or who of this process has the name.
  std::optional<strategies::term_row> const& seen() const noexcept { return seen_; }
  void look_at(std::optional<holder_info> holder);
  /// Tells the program whom the call is going to wait for, as far as that is known.
  void tell_wait() const noexcept;
  /// The name was seen to be recorded as done: nobody holds it, and nobody is to wait for it.
  bool was_done() const noexcept;
  /// The last attempt failed although nobody holds it.
  bool contended() const noexcept { return contended_; }
  /// Others keep away for a moment: whoever comes back later has had its turn in vain.
  bool waited_for() const noexcept { return std::chrono::steady_clock::now() < waited_for_until_; }
  /// Since the last lost reply the row could not be looked at.
  bool in_doubt() const noexcept { return in_doubt_; }
  /// A term was granted, and its trust was over when the reply came.
  bool came_too_late() const noexcept { return came_too_late_; }
  /// How soon the term that was seen can be had, if nobody gives it back before; empty if that is not known.
  std::optional<std::chrono::milliseconds> can_be_had_in() const;

  /// The token that a quorum's other members are asked for meanwhile; empty: none.
  void propose(std::optional<fencing_token> token) noexcept { proposed_ = token; }

  /// From now on as many tokens as several owners of this process need are drawn by each take.
  void draw_for_others() noexcept;

 private:
  void give_back_at_once(backend::connection&, term_id const&) noexcept;
  /// An attempt whose reply was lost: it may have been granted, or may yet be.
  struct doubt {
    term_id term;
    boot_time_point sent_at;
    int tokens = 1;
  };
  bool ask();
  bool ask(backend::connection&);
  /// @return nothing if this take was not granted together with those of other threads: it is to be tried
  /// alone
  std::optional<bool> ask_with_others();
  void remember_sent();
  void give_back_later(term_id const&) noexcept;
  void give_back_later(doubt const&) noexcept;
  void give_back_sent() noexcept;
  bool wait_in_server(std::optional<boot_time_point> until);
  bool take(backend::connection&, std::optional<strategies::superseded> const&);
  bool settle_doubts(backend::connection&);
  bool claim_doubtful_term(backend::connection&, strategies::term_row const&);
  bool accept_grant(backend::connection&, strategies::granted const&, term_id const&,
                    boot_time_point sent_at);
  bool accept_grant(strategies::granted const&, term_id const&, boot_time_point sent_at, std::size_t server);
  strategies::take_request request() const;

  engine& engine_;
  lock_spec const& spec_;
  strategies::locking_strategy const& strategy_;
  owner_id const owner_;
  std::stop_token const stop_;

  int tokens_ = 1;
  std::optional<fencing_token> proposed_;
  strategies::wanted_permit permit_;
  bool contended_ = false;
  bool in_doubt_ = false;
  bool came_too_late_ = false;
  std::chrono::steady_clock::time_point waited_for_until_{};
  /// What was sent last, until its fate is known and somebody has it in hand: whatever is thrown meanwhile,
  /// it is given back.
  std::optional<doubt> sent_;
  std::vector<doubt> doubts_;
  std::optional<strategies::term_row> seen_;
  watched_row watch_;  ///< of the row as last seen
  std::optional<grant> granted_;
};

}  // namespace rowlock::managing
