#pragma once
// One lock that several databases grant: what each of them has answered, and until when a majority of them
// can be trusted. Only this class decides whether it is ours. lib/doc/quorum.md

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
#include "holding/hold.hpp"

namespace rowlock::recipes {

/// What a member has answered to a take.
struct ballot {
  std::shared_ptr<holding::hold> granted{};
  acquire_status why = acquire_status::busy;
  std::optional<holder_info> holder{};
  std::optional<error> failure{};
  bool revoked = false;  ///< it had granted it, and an operator has taken it away: it was not asked again
};

/// Thread-safe. asking -> held -> lost or over; asking -> over; nothing leads back.
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
  /// The longest time that a member may be asked to grant or renew, after which hard_limit would be passed.
  std::chrono::milliseconds left_of_hard_limit() const;

  /// Whether what a member grants is of use still.
  bool is_wanted() const noexcept { return phase_.load() == phase::asking || phase_.load() == phase::held; }
  /// A question to a member begins. @return false if one is under way, or nothing is to be asked any more
  bool begin_to_ask(std::size_t member);
  /// It has come to its end. @return whether what was granted is kept; else it is to be given back
  bool answered(std::size_t member, ballot);
  /// A renewal has. `confirmed`: it has it, and knows the token `top`. `failure`: it could not be asked.
  void confirmed(std::size_t member, bool confirmed, fencing_token top, std::optional<error> const& failure);
  /// The member does not belong to the quorum any more: what it has granted does not count.
  void leave_out(std::size_t member);

  /// Waits until a majority has granted, or cannot any more, or (a moment longer) all of `awaited` have
  /// answered; until `until` at most.
  void wait_for_ballots(std::vector<bool> const& awaited, boot_time_point until);
  /// Waits until a majority knows the token `top`, or nobody is being asked, or `until`.
  void wait_for_confirmations(fencing_token top, boot_time_point until);

  /// Waits until no question is under way, or `until`.
  void wait_for_answers(boot_time_point until);

  /// The highest that was granted; 0: none.
  fencing_token highest() const;
  /// Those that have granted and do not know that token.
  std::vector<std::size_t> behind(fencing_token) const;
  /// asking -> held, if a majority has granted no higher token, and one knows this token and is trusted.
  /// Trust counts from before each member's own request.
  bool begin(fencing_token);

  /// The member that was asked first, where others wait.
  void was_first(std::size_t member) noexcept { first_ = member; }
  std::size_t first() const noexcept { return first_; }

  /// What had been had of a member before it is asked again.
  struct former_grant {
    std::shared_ptr<holding::hold> to_be_given_back{};  ///< null: it has been
    term_id term{};                                     ///< empty: none
  };
  /// Whether a member is to be asked to grant it again: it has not granted it, or what it has granted does
  /// not count any more, and will not again. That is handed out, and does not count from now on.
  std::optional<former_grant> may_ask_again(std::size_t member);

  /// What a member has granted, or null.
  std::shared_ptr<holding::hold> of(std::size_t member) const;
  ballot last_answer(std::size_t member) const;
  /// It was asked, and has not answered yet.
  bool is_awaited(std::size_t member) const;
  /// It has answered that somebody else has it.
  bool has_refused(std::size_t member) const;

  /// Whether its loss is still to be announced; true once.
  bool announcement_is_due() noexcept { return lost_.load() && !announced_.exchange(true); }
  /// When the loss is to be reported if no renewal comes: a little before trust ends.
  boot_time_point alarm() const noexcept;
  /// held -> lost, if that time has come, or less than a majority can be trusted. @return true if it was that
  bool look() noexcept;
  bool held() const noexcept { return phase_.load() == phase::held; }
  void announce_loss() noexcept { stop_.request_stop(); }
  /// What whoever renews has to do with it, decided in one step: for a loss that comes a moment later there
  /// is the next look. `announcement` is due once.
  enum class due { renewal, announcement, nothing };
  due look_what_is_due() noexcept;

  /// -> over, and before that, if trust has ended unseen, -> lost. @return what the members have granted, by
  /// member; null where nothing. Empty if it was over before
  std::vector<std::shared_ptr<holding::hold>> end(bool& was_held);

 private:
  enum class phase { asking, held, lost, over };
  struct part {
    std::shared_ptr<holding::hold> granted{};
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
  /// Under the mutex: trust as the parts have it; it does not come back once it has ended.
  void recount();
  /// Under the mutex: from the first grant.
  void begin_hard_limit(boot_time_point first_sent_at);
  /// If it has moved forward.
  void tell_trust() noexcept;
  void lose();
  loss_reason why_lost() const;
  loss_reason when_unseen() const noexcept;
  /// Before the end of trust: when a loss is reported.
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
  std::atomic<boot_clock::rep> last_trust_{0};  ///< as trusted_until() says
  std::atomic<boot_clock::rep> told_trust_{0};  ///< mutex_options::on_trust
  std::atomic<bool> lost_{false};
  std::atomic<bool> announced_{false};
  std::atomic<int> reason_{-1};
  std::stop_source stop_;
};

}  // namespace rowlock::recipes
