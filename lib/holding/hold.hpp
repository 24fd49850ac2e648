#pragma once
// One granted term and what this process knows about it. Only this class decides whether it is still ours.

#include <atomic>
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
#include "waiting/local_queue.hpp"
#include "waiting/wait_queues.hpp"

namespace rowlock::holding {

/// Trust: until when the holder may act. It counts from when the granting or renewing statement was sent,
/// less a margin of a tenth of the ttl (clock rates within 1 %, and steps of the database's clock up to half
/// the margin).
boot_time_point trust_after(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept;

/// What few ask for, of mutex_options. Made if one is set: there may be many locks.
struct extras {
  std::string note;
  std::function<void(boot_time_point)> on_trust;
  std::string label;
};
/// Null if there are none.
std::shared_ptr<extras const> extras_of(mutex_options const&);

/// What is fixed when a term is granted.
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
  // What the term can still do for other threads of this process: lib/doc/hand_on.md. Small, because there
  // may be many locks.
  std::uint8_t tokens_left = 0;                       ///< of the block that the take drew, after `token`
  std::uint8_t handed_on = 0;                         ///< so many times
  std::int32_t units = 0;                             ///< of a permit
  boot_time_point in_process{};                       ///< since when: the reply of the take
  boot_time_point sent_at;                            ///< of the granting statement
  std::chrono::system_clock::time_point acquired_at;  ///< by this machine's clock, for people
  std::uint32_t server = 0;                           ///< database::server_of() the granting session
  std::int32_t limit = 0;  ///< of a permit: that its taker was told; 0: the one that was set
  std::shared_ptr<extras const> more{};

  std::string_view note() const noexcept { return more ? std::string_view(more->note) : std::string_view(); }
  std::string_view label() const noexcept {
    return more ? std::string_view(more->label) : std::string_view();
  }
};

inline strategy_traits const& traits_of(grant_facts const& f) noexcept { return traits(f.strategy); }

/// Until when what is left in the row of a term, which was prolonged at `from` for the last time, may keep
/// the name from others. With takeover::observed the row's expiry ends nothing, so long as nobody watches:
/// then it is a bound for whoever tries to give it back.
boot_time_point leftover_until(rowlock::takeover, std::chrono::milliseconds ttl,
                               boot_time_point from) noexcept;

/// What keeps terms from being renewed, as far as that is known.
struct trouble {
  loss_reason why = loss_reason::database_unreachable;
  std::string what{};  ///< for people: an error, or by whom a row is locked
};

/// Until when a term as it was granted may be trusted.
boot_time_point first_trust(grant_facts const&) noexcept;

/// When the statement was sent whose reply was the last one to confirm the term, of which that is the trust:
/// no hard limit, never extended.
boot_time_point confirmed_at(grant_facts const&, boot_time_point trusted_until) noexcept;

/// As `from`, which goes on with another owner: its trust is `trusted_until`, and its token the block's next.
grant_facts for_successor(grant_facts const& from, owner_id const& to, boot_time_point trusted_until);

/// Thread-safe. States: held -> releasing -> released, or held -> lost, or held -> offered -> handed_on (or
/// releasing, if nobody took it over); nothing leads back. While it is held it may become exposed.
class hold final : public waiting::local_holder {
 public:
  /// @throws std::bad_alloc; then both are as before
  hold(grant_facts&&, waiting::local_queue::turn&&);
  /// Before anybody else knows it: the wait queue at which it was waited for, which is left when the lock is
  /// given back.
  void keep_queue(waiting::wait_queues::ticket t) noexcept {
    queue_.emplace(std::move(t));
    queue_->keep();
    had_queue_ = true;
  }
  /// For whoever ends it. A loss takes the wait queue away.
  bool has_queue() const noexcept { return queue_.has_value(); }
  /// Whether it was waited for at a wait queue; any thread may ask.
  bool had_queue() const noexcept { return had_queue_; }
  /// While it is being given back: see waiting::wait_queues::ticket::leave_with().
  bool leave_queue_with(std::function<void(backend::connection&)> const& give_back) {
    return queue_ && queue_->leave_with(give_back);
  }
  /// As the constructor, and makes the hold known to the local queue.
  /// @throws std::bad_alloc; then both are as before
  static std::shared_ptr<hold> make(grant_facts&&, waiting::local_queue::turn&&);

  grant_facts const& facts() const noexcept { return facts_; }

  /// Its caller has it from now on. What it never had is given back without at_least.
  void hand_out() noexcept { handed_out_.store(true); }
  /// Its caller can do nothing by it: a member's term of a quorum, without a majority.
  void forget_at_least() noexcept { handed_out_.store(false); }
  /// How long after it was taken the name stays taken, if it is given back earlier.
  std::chrono::milliseconds at_least() const noexcept {
    return handed_out_.load() ? facts_.at_least : std::chrono::milliseconds(0);
  }

  /// Before an extension is sent: the row may last until then, whatever becomes of the reply.
  void may_last(boot_time_point until) noexcept;
  /// Until when what is left of it in its row, if it is not renewed any more, may keep the name from others.
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

  /// A renewal or extension that was sent at `sent_at` was acknowledged just now. Looks at the clock again:
  /// trust that has ended meanwhile does not come back. @return false if it was too late
  bool prolong(boot_time_point sent_at, std::chrono::milliseconds lasts) noexcept;

  /// Tells the program until when trust runs now; after prolong().
  void tell_trust(sessions::events const& events) const noexcept {
    if (facts_.more && facts_.more->on_trust) events.call([this] { facts_.more->on_trust(trusted_until()); });
  }

  /// A renewal is about to be sent. What is not confirmed since then tells later why trust ran out.
  void renewal_begins(boot_time_point now) noexcept;
  /// Why the last renewal was not confirmed.
  void hindered_by(std::shared_ptr<trouble const> what) noexcept;
  std::shared_ptr<trouble const> hindrance() const noexcept;
  /// When its holder is told at the latest that trust ends: a little before.
  boot_time_point told_at() const noexcept;
  /// Why it is over if trust has run out, or is about to.
  loss_reason why_expired() const noexcept;
  /// held_lock::loss_details()
  std::string loss_details() const;

  /// A transaction of the program's may have its row locked from now on.
  void mark_guarded() noexcept { guarded_.store(true); }
  bool guarded() const noexcept { return guarded_.load(); }

  /// For strategies that record what is done: the term that the row gets with the record. The same one
  /// however often that is tried, so that a record is known again if its reply, or the reply of a COMMIT, was
  /// lost.
  term_id const& term_of_record();
  bool may_be_recorded() const noexcept { return may_be_recorded_.load(); }
  /// A transaction of the program's is to record it: nobody else may, for only its COMMIT says that it is
  /// done.
  void mark_recorded_in_transaction() noexcept { recorded_in_transaction_.store(true); }
  bool recorded_in_transaction() const noexcept { return recorded_in_transaction_.load(); }
  /// The record was seen in its row: whatever is done with it afterwards, it has ended well.
  void mark_recorded() noexcept { recorded_.store(true); }
  bool recorded() const noexcept { return recorded_.load(); }

  /// held -> lost. @return false if it was not held any more. The caller then tells the watchdog.
  bool lose(loss_reason) noexcept;
  /// As lose(taken_over), by the same owner: the turn goes to its new term. Empty if it was not held any
  /// more.
  std::optional<waiting::local_queue::turn> lose_to_successor() noexcept;
  /// Somebody is to know its term, by which rows are asked: so the term ends with this hold, and is not
  /// handed on. @return false if that has been done, or is being done: then it must not be known
  bool share_term() noexcept;

  /// held -> releasing. @return false if it was not held any more.
  bool begin_release() noexcept;
  bool has_successor(void const* manager) const noexcept { return turn_.has_successor_for(*this, manager); }
  /// held -> offered, unless it was exposed.
  bool offer() noexcept;
  /// offered -> handed_on: the next in line has it, with the turn. If nobody takes it over: -> releasing, and
  /// false
  static bool hand_on(std::shared_ptr<hold> const&, void const* manager) noexcept;
  /// Of an offered or handed-on hold: until when its term is trusted.
  boot_time_point offered_until() const noexcept { return boot_time_point(trust_.load()); }
  std::optional<waiting::wait_queues::ticket> take_queue() noexcept {
    auto taken = std::move(queue_);
    queue_.reset();
    return taken;
  }
  /// releasing -> released, or -> lost if the term was not there any more; lets the next local waiter go.
  /// `leave_by`: until when there is time to leave the wait queue, if there is one; it ends with its session
  /// otherwise.
  void end_release(std::optional<loss_reason> lost = {},
                   boot_time_point leave_by = boot_time_point::min()) noexcept;

  /// Runs the loss callbacks; by the watchdog only.
  void announce_loss() noexcept { stop_.request_stop(); }

  /// Handles of a recursive lock that share this hold; begins at one. @return false if the last one is just
  /// being given back, perhaps by another thread
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

  std::stop_source stop_;  ///< first: it needs memory
  grant_facts facts_;
  waiting::local_queue::turn turn_;  ///< given up on loss or release, by whoever made that transition
  std::optional<waiting::wait_queues::ticket> queue_;  ///< likewise
  unsigned epoch_ = base::fork_epoch();
  std::atomic<state> state_{state::held};
  std::atomic<boot_clock::duration> trust_;
  std::atomic<boot_clock::duration> extended_until_{boot_clock::duration::min()};  ///< of the row, at most
  // Small, because there may be many locks.
  static constexpr std::int8_t no_reason = -1;
  std::atomic<std::int8_t> reason_{no_reason};  ///< a loss_reason; set before the state
  /// Since when no renewal is confirmed: when the first of them was sent. 0: the last one was.
  std::atomic<boot_clock::duration> unconfirmed_since_{boot_clock::duration(0)};
  std::atomic<boot_clock::duration> lost_at_{boot_clock::duration(0)};
  std::atomic<bool> hindered_{false};         ///< whether there is a hindrance_
  std::shared_ptr<trouble const> hindrance_;  ///< of what is not confirmed; one mutex for all holds guards it
  std::atomic<bool> guarded_{false};
  std::atomic<bool> may_be_recorded_{false};  ///< record_ is there
  std::atomic<bool> recorded_in_transaction_{false};
  std::atomic<bool> recorded_{false};
  std::atomic<bool> handed_out_{false};
  bool had_queue_ = false;  ///< written before anybody else knows the hold
  std::atomic<int> handles_{1};
  std::once_flag record_made_;
  std::unique_ptr<term_id const> record_;
};

}  // namespace rowlock::holding
