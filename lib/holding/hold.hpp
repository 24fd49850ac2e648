#pragma once
// A granted term, and what this process knows about it. Only class hold decides whether it is still held.
//
// States.
//
//   state        trust               next state
//   held         runs                term_shared, offered, releasing, lost
//   term_shared  runs                releasing, lost
//   offered      none                handed_on
//   handed_on    none                releasing, if no successor accepts.
//   releasing    ended               released, lost
//   released     ended               -
//   lost         ended, or runs out  -
//
// - term_shared: program or database can use the term. There is no hand-off any more, because the previous
//   owner could still pass require(). [C46]
// - offered, handed_on: row, term and trust pass to the successor's hold (lib/doc/hand_on.md).
// - lost: trust ends at once, unless the row is ours until its expiry. Then the holder can use it to stop.
// - In a forked child no hold is held.
// - The thread that makes the step out of held or term_shared then owns turn_ and queue_.
//
// Flags
//
//   flag                     set                               together with
//   guarded                  by require(), execute_commit(),   not offered, not handed_on
//                            transaction::done()
//   may_be_recorded          before a record is sent           not offered, not handed_on
//   recorded_in_transaction  by transaction::done()            always guarded and may_be_recorded
//   recorded                 when the record was read          always may_be_recorded. Also lost
//   handed_out               when the caller has the lock      any
//   had_queue                before the hold is published      any
//   hindered                 from a failed renewal to the      any
//                            next confirmed one
//
// The calls of lib/manager make and end holds. The threads of renewer, session_pinger and watchdog prolong or
// lose them.

#include <atomic>
#include <cassert>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/options.hpp>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>

#include "base/fork_epoch.hpp"
#include "sessions/events.hpp"
#include "strategy/quarantine.hpp"
#include "waiting/local_queue.hpp"
#include "waiting/wait_queues.hpp"

namespace rowlock::holding {

/// The end of trust, counted from when the granting or renewing statement was sent. The margin, a tenth of
/// the ttl, covers clock rates within 1 %, and steps of the database's clock up to half the margin.
boot_time_point trust_after(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept;

/// Options that few locks have.
struct extras {
  std::string note;
  std::function<void(boot_time_point)> on_trust;
  std::string label;
};
/// @return null if none of them is set
std::shared_ptr<extras const> extras_of(mutex_options const&);

/// Whether such a lock must not be forgotten by a crash. Such are those that can count without their process:
/// a fixed term, an explicit owner's, one that is kept for a while, and one whose end other processes learn,
/// perhaps on another host. And those that last longer than a quarantine.
inline bool needs_flush(bool renew, std::chrono::milliseconds at_least, owner_id const& owner,
                        bool tells_trust, std::chrono::milliseconds ttl) noexcept {
  return !renew || at_least.count() > 0 || owner.is_explicit() || tells_trust ||
         ttl > strategies::longest_quarantine;
}

struct grant_facts {
  std::string name;
  rowlock::strategy strategy = rowlock::strategy::lease;
  rowlock::takeover takeover = rowlock::takeover::clock;
  term_id term;
  fencing_token token;
  owner_id owner;
  std::chrono::milliseconds ttl{0};
  std::chrono::milliseconds at_least{0};
  std::chrono::milliseconds hard_limit{0};
  bool renew = true;
  bool fencing = true;
  // For hand-offs (lib/doc/hand_on.md). Small, because a process can hold many locks.
  std::uint8_t tokens_left = 0;                       ///< of the block that the take drew, after `token`
  std::uint8_t handed_on = 0;                         ///< number of hand-offs
  std::int32_t units = 0;                             ///< of a permit
  boot_time_point in_process{};                       ///< when the reply to the take came
  boot_time_point sent_at;                            ///< of the granting statement
  std::chrono::system_clock::time_point acquired_at;  ///< by this machine's clock, for people
  std::uint32_t server = 0;                           ///< of the granting session. See database::server_of()
  std::int32_t limit = 0;                             ///< of a permit, from its taker. 0: the stored limit
  std::shared_ptr<extras const> more{};

  bool needs_flush() const noexcept {
    return holding::needs_flush(renew, at_least, owner, more && more->on_trust, ttl);
  }
  std::string_view note() const noexcept { return more ? std::string_view(more->note) : std::string_view(); }
  std::string_view label() const noexcept {
    return more ? std::string_view(more->label) : std::string_view();
  }
};

inline strategy_traits const& traits_of(grant_facts const& f) noexcept { return traits(f.strategy); }

/// Until when a row, last prolonged at `from`, can keep its name from other owners. With takeover::observed
/// no expiry does that, and this bounds how long a release is tried.
boot_time_point leftover_until(rowlock::takeover, std::chrono::milliseconds ttl,
                               boot_time_point from) noexcept;

/// Why renewals fail.
struct trouble {
  loss_reason why = loss_reason::database_unreachable;
  std::string what{};  ///< for people: an error, or which session has the row locked
};

/// The end of trust without a renewal.
boot_time_point first_trust(grant_facts const&) noexcept;

/// When the last statement to confirm the term was sent. Preconditions: no hard limit, never extended.
boot_time_point confirmed_at(grant_facts const&, boot_time_point trusted_until) noexcept;

/// The facts of a hand-off: with the block's next token.
grant_facts for_successor(grant_facts const& from, owner_id const& to, boot_time_point trusted_until);

/// Thread-safe.
class hold final : public waiting::local_holder {
 public:
  /// @throws std::bad_alloc; then both arguments are unchanged
  hold(grant_facts&&, waiting::local_queue::turn&&);
  ~hold() override;
  hold(hold const&) = delete;
  hold& operator=(hold const&) = delete;
  /// Precondition: no other thread knows this hold.
  void keep_queue(waiting::wait_queues::ticket t) noexcept {
    assert(!queue_);
    queue_.emplace(std::move(t));
    queue_->keep();
    had_queue_ = true;
  }
  /// For the thread that ends the hold.
  bool has_queue() const noexcept { return queue_.has_value(); }
  bool had_queue() const noexcept { return had_queue_; }
  /// See waiting::wait_queues::ticket::leave_with().
  bool leave_queue_with(std::function<void(backend::connection&)> const& give_back) {
    return queue_ && queue_->leave_with(give_back);
  }
  /// As the constructor, and tells the local queue.
  static std::shared_ptr<hold> make(grant_facts&&, waiting::local_queue::turn&&);

  grant_facts const& facts() const noexcept { return facts_; }

  /// Before this call, a release ignores at_least.
  void hand_out() noexcept { handed_out_.store(true); }
  /// If the caller could not use the lock: a quorum member's term without a majority.
  void forget_at_least() noexcept { handed_out_.store(false); }
  /// How long after its take the name stays taken.
  std::chrono::milliseconds at_least() const noexcept {
    return handed_out_.load() ? facts_.at_least : std::chrono::milliseconds(0);
  }

  /// Before an extension is sent: the row might last until then, whatever the reply.
  void may_last(boot_time_point until) noexcept;
  /// Until when the row can keep its name from other owners without a renewal.
  boot_time_point leftover_until() const noexcept;

  bool forked() const noexcept { return epoch_ != base::fork_epoch(); }
  bool held() const noexcept { return is_held(state_.load()) && !forked(); }
  boot_time_point trusted_until() const noexcept {
    auto const now = state_.load();
    return now == state::offered || now == state::handed_on ? boot_time_point{} : offered_until();
  }
  bool valid() const noexcept { return held() && boot_clock::now() < trusted_until(); }
  std::optional<loss_reason> loss() const noexcept;
  std::stop_token loss_token() const noexcept { return stop_.get_token(); }
  holder_info as_holder() const override;

  /// A renewal or extension is confirmed. Reads the clock again, because trust that has ended does not come
  /// back. @return false if it has ended
  bool prolong(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept;

  /// Reports the end of trust to the program. Call it after prolong().
  void tell_trust(sessions::events const& events) const noexcept {
    if (facts_.more && facts_.more->on_trust) events.call([this] { facts_.more->on_trust(trusted_until()); });
  }

  /// Before a renewal is sent.
  void renewal_begins(boot_time_point now) noexcept;
  /// After a renewal that was not confirmed.
  void hindered_by(std::shared_ptr<trouble const> what) noexcept;
  std::shared_ptr<trouble const> hindrance() const noexcept;
  /// When the loss is reported at the latest, shortly before trust ends.
  boot_time_point told_at() const noexcept;
  /// The loss reason if trust has run out, or is about to.
  loss_reason why_expired() const noexcept;
  std::string loss_details() const;

  void mark_guarded() noexcept { guarded_.store(true); }
  bool guarded() const noexcept { return guarded_.load(); }

  /// The term that the row gets with a record. It is the same for each try, so that a record whose reply was
  /// lost is recognised.
  term_id const& term_of_record();
  bool may_be_recorded() const noexcept { return may_be_recorded_.load(); }
  /// Only the COMMIT of the program's transaction makes the work done, so no other statement may record it.
  void mark_recorded_in_transaction() noexcept {
    assert(guarded() && may_be_recorded());
    recorded_in_transaction_.store(true);
  }
  bool recorded_in_transaction() const noexcept { return recorded_in_transaction_.load(); }
  void mark_recorded() noexcept {
    assert(may_be_recorded());
    recorded_.store(true);
  }
  bool recorded() const noexcept { return recorded_.load(); }

  /// held -> lost. @return false if it was not held; else the caller informs the watchdog
  bool lose(loss_reason) noexcept;
  /// As lose(taken_over) by the same owner: its new term gets the turn. Empty if it was not held.
  std::optional<waiting::local_queue::turn> lose_to_successor() noexcept;
  /// held -> term_shared. Call it before the term is used outside of the hold. @return false if it is offered
  /// or handed on: then do not use the term
  bool share_term() noexcept;

  /// held -> releasing. @return false if it was not held
  bool begin_release() noexcept;
  bool has_successor(void const* manager) const noexcept { return turn_.has_successor_for(*this, manager); }
  /// held -> offered. @return false in any other state
  bool offer() noexcept;
  /// offered -> handed_on, or without a successor -> releasing. @return false then
  static bool hand_on(std::shared_ptr<hold> const&, void const* manager) noexcept;
  boot_time_point offered_until() const noexcept { return boot_time_point(trust_.load()); }
  std::optional<waiting::wait_queues::ticket> take_queue() noexcept {
    auto taken = std::move(queue_);
    queue_.reset();
    return taken;
  }
  /// releasing -> released, or -> lost. Passes the turn on. After `leave_by` the queue place ends with its
  /// session.
  void end_release(std::optional<loss_reason> lost = {},
                   boot_time_point leave_by = boot_time_point::min()) noexcept;

  /// Triggered as soon as it is lost, released or handed on. The callbacks run in the thread that ends it:
  /// they must neither wait nor call back. @throws std::bad_alloc
  std::stop_token end_token();

  /// Runs the loss callbacks. For the watchdog.
  void announce_loss() noexcept { stop_.request_stop(); }

  /// Counts the handles of a recursive lock, from one. @return false if the last one is being released
  bool share() noexcept;
  bool is_shared() const noexcept { return handles_.load() > 1; }
  bool has_handles() const noexcept override { return valid() && handles_.load() > 0; }
  /// @return true if it was the last
  bool unshare() noexcept { return handles_.fetch_sub(1) == 1; }

 private:
  enum class state : int { held, term_shared, offered, handed_on, releasing, released, lost };
  static bool is_held(state s) noexcept { return s == state::held || s == state::term_shared; }
  bool change_if_held(state to) noexcept;
  bool leave_held(loss_reason) noexcept;
  void end_trust_now() noexcept;
  void tell_end() noexcept;

  std::stop_source stop_;  ///< first, because it can throw
  grant_facts facts_;
  waiting::local_queue::turn turn_;
  std::optional<waiting::wait_queues::ticket> queue_;
  unsigned epoch_ = base::fork_epoch();
  std::atomic<state> state_{state::held};
  std::atomic<boot_clock::duration> trust_;
  std::atomic<boot_clock::duration> extended_until_{boot_clock::duration::min()};  ///< of the row, at most
  static constexpr std::int8_t no_reason = -1;
  std::atomic<std::int8_t> reason_{no_reason};  ///< a loss_reason. Set before the state
  /// When the first unconfirmed renewal was sent; 0: there is none.
  std::atomic<boot_clock::duration> unconfirmed_since_{boot_clock::duration(0)};
  std::atomic<boot_clock::duration> lost_at_{boot_clock::duration(0)};
  std::atomic<bool> hindered_{false};
  std::shared_ptr<trouble const> hindrance_;  ///< guarded by one mutex for all holds
  std::atomic<bool> guarded_{false};
  std::atomic<bool> may_be_recorded_{false};  ///< record_ is set
  std::atomic<bool> recorded_in_transaction_{false};
  std::atomic<bool> recorded_{false};
  std::atomic<bool> handed_out_{false};
  std::atomic<bool> is_watched_{false};  ///< there is an end_token()
  bool had_queue_ = false;
  std::atomic<int> handles_{1};
  std::once_flag record_made_;
  std::unique_ptr<term_id const> record_;
};

}  // namespace rowlock::holding
