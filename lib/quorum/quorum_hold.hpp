#pragma once
// One lock that several databases grant. Only this class decides whether it is held. lib/doc/quorum.md

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/options.hpp>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "base/fork_epoch.hpp"
#include "manager/member.hpp"

namespace rowlock::voting {

/// A member's answer to a take.
struct ballot {
  managing::granted_vote granted{};
  acquire_status why = acquire_status::busy;
  std::optional<holder_info> holder{};
  std::optional<error> failure{};
  bool revoked = false;  ///< an operator revoked the former grant, so the member was not asked
};

/// One quorum lock, from the first question to the release. Its phases:
/// - asking: then held or over.
/// - held: a majority is trusted. Then lost or over.
/// - lost: for good, whatever reply comes later. Then over.
/// - over: released or given up.
///
/// Thread-safe. The caller, the members' threads and the keeper thread use it.
class quorum_hold {
 public:
  quorum_hold(std::string name, mutex_options options, std::size_t members, std::size_t majority);

  std::string const& name() const noexcept { return name_; }
  mutex_options const& options() const noexcept { return options_; }
  fencing_token token() const noexcept { return {token_.load()}; }
  boot_time_point trusted_until() const noexcept;
  bool valid() const noexcept;
  std::optional<loss_reason> loss() const noexcept;
  std::stop_token loss_token() const noexcept { return stop_.get_token(); }
  std::size_t votes() const;
  std::size_t majority() const noexcept { return majority_; }
  /// The time until hard_limit, for a request to a member: 100 ms at least. 0: no limit.
  std::chrono::milliseconds left_of_hard_limit() const;

  /// Whether a member's grant is still of use.
  bool is_wanted() const noexcept { return phase_.load() == phase::asking || phase_.load() == phase::held; }
  /// Begins a question. @return false if one is under way, or the member must not be asked any more
  bool begin_to_ask(std::size_t member);
  /// Ends the question. @return whether the grant is kept; else the caller releases it
  bool answered(std::size_t member, ballot);
  /// Ends a renewal. `confirmed`: renewed, and the member knows the token `top`. `failure`: it could not be
  /// asked.
  void confirmed(std::size_t member, bool confirmed, fencing_token top, std::optional<error> const& failure);
  /// For a member that left the quorum: its grant does not count.
  void leave_out(std::size_t member);

  /// Waits until a majority has granted or can't, or (a moment longer) all of `awaited` have answered; until
  /// `until` at most.
  void wait_for_ballots(std::vector<bool> const& awaited, boot_time_point until);
  /// Waits until a majority knows the token `top`, no member with a grant is being asked, or `until`.
  void wait_for_confirmations(fencing_token top, boot_time_point until);

  void wait_for_answers(boot_time_point until);

  /// The highest granted token; 0: none.
  fencing_token highest() const;
  /// Members that granted and do not know that token.
  std::vector<std::size_t> behind(fencing_token) const;
  /// asking -> held, if a majority granted no higher token, and a majority knows this token and is trusted.
  /// Trust counts from before each member's own request.
  bool begin(fencing_token);

  /// The member that was asked first: other callers wait there.
  void was_first(std::size_t member) noexcept { first_ = member; }
  std::size_t first() const noexcept { return first_; }

  /// A member's grant, before it is asked again.
  struct former_grant {
    managing::granted_vote to_be_given_back{};  ///< null: released
    term_id term{};                             ///< empty: none
  };
  /// The former grant, if the member may be asked for a new one: it has none, or one that no longer counts.
  /// From now on the former grant does not count.
  std::optional<former_grant> may_ask_again(std::size_t member);

  /// The member's grant, or null.
  managing::granted_vote of(std::size_t member) const;
  ballot last_answer(std::size_t member) const;
  bool is_awaited(std::size_t member) const;
  /// Whether the member answered that another owner has the lock.
  bool has_refused(std::size_t member) const;

  /// True once, if the loss is not reported yet.
  bool announcement_is_due() noexcept { return lost_.load() && !announced_.exchange(true); }
  /// A little before the end of trust: without a renewal, the loss is reported then.
  boot_time_point alarm() const noexcept;
  /// held -> lost, at alarm() or without a trusted majority. @return whether this call lost it
  bool look() noexcept;
  bool held() const noexcept { return phase_.load() == phase::held; }
  void announce_loss() noexcept { stop_.request_stop(); }
  /// The keeper's next work, decided in one step. `announcement` is due once.
  enum class due { renewal, announcement, nothing };
  due look_what_is_due() noexcept;

  /// -> over; before that -> lost, if trust has ended unseen. @return the grants by member, null where none;
  /// empty if it was over before
  std::vector<managing::granted_vote> end(bool& was_held);

 private:
  enum class phase { asking, held, lost, over };
  struct part {
    managing::granted_vote granted{};
    fencing_token knows{};
    term_id former{};  ///< may_ask_again()
    bool revoked = false;
    bool asked = false;
    bool answered = false;
    bool left_out = false;
    ballot last{};
    std::optional<error> trouble{};  ///< of the last renewal
  };
  static bool counts(part const&, fencing_token) noexcept;
  static boot_time_point trust_of(part const&, fencing_token) noexcept;
  boot_time_point last_of_majority(std::vector<boot_time_point> each) const;
  boot_time_point trust_of_majority(fencing_token) const;
  boot_time_point until_others_can_have_it() const;
  std::size_t knowing(fencing_token) const;
  /// With the mutex. Recounts trust, which never comes back once it has ended.
  void recount();
  /// With the mutex.
  void begin_hard_limit(boot_time_point first_sent_at);
  /// Calls on_trust if trust has moved forward.
  void tell_trust() noexcept;
  void lose();
  loss_reason reason_of_loss() const;
  loss_reason when_unseen() const noexcept;
  /// From the report of a loss to the end of trust.
  boot_clock::duration ahead_of_end() const noexcept;

  bool forked() const noexcept { return epoch_ != base::fork_epoch(); }

  unsigned const epoch_ = base::fork_epoch();
  std::string const name_;
  mutex_options const options_;
  std::size_t const majority_;
  std::size_t first_ = 0;
  boot_time_point hard_until_;
  mutable std::mutex mutex_;
  std::condition_variable come_;
  std::vector<part> parts_;
  std::atomic<phase> phase_{phase::asking};
  std::atomic<std::int64_t> token_{0};
  static constexpr boot_clock::rep ended = 0;  ///< of trust: for good
  mutable std::atomic<boot_clock::rep> trust_{ended};
  std::atomic<boot_clock::rep> last_trust_{0};
  std::atomic<boot_clock::rep> told_trust_{0};  ///< mutex_options::on_trust
  std::atomic<bool> lost_{false};
  std::atomic<bool> announced_{false};
  std::atomic<int> reason_{-1};
  std::stop_source stop_;
};

}  // namespace rowlock::voting
