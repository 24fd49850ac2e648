#pragma once
// The members of a quorum, as one program sees them: which vote, in which epoch; what is asked of each; and
// the thread that renews. lib/doc/quorum.md

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/quorum.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/boot_waiter.hpp"
#include "manager/manager.hpp"
#include "recipes/errands.hpp"
#include "recipes/quorum_hold.hpp"
#include "strategy/quorum_member.hpp"

namespace rowlock::recipes {

/// What all members that vote have in common.
struct quorum_view {
  strategies::member_record record;
  std::vector<bool> left_out;  ///< managers whose database is none of the members
  std::size_t majority() const noexcept { return record.members.size() / 2 + 1; }
};

/// Thread-safe.
class quorum_crew {
 public:
  using manager_ptr = std::shared_ptr<managing::manager>;

  quorum_crew(std::vector<manager_ptr> members, quorum_options options);
  ~quorum_crew();
  quorum_crew(quorum_crew const&) = delete;
  quorum_crew& operator=(quorum_crew const&) = delete;

  std::size_t size() const noexcept { return members_.size(); }
  managing::manager& at(std::size_t member) const { return *members_.at(member)->manager; }
  std::string const& where(std::size_t member) const;
  std::chrono::milliseconds reply_timeout() const noexcept { return reply_timeout_; }

  /// The epoch as far as it is known; asks the members if it is not known yet.
  /// @throws error(errc::not_voting) if these are not the members of one quorum; what the members say if too
  /// few of them answer
  std::shared_ptr<quorum_view const> view();
  /// A member has said that it does not vote in that epoch: asks it, and goes on to a later epoch.
  /// @return whether there is another epoch now
  bool look_again(std::size_t member, std::string const& epoch_id);

  /// Did not answer the last time. It is asked on, beside the others, but nobody waits for it.
  bool is_suspect(std::size_t member) const noexcept;
  /// Remembers whether a member answers. Call it with what each question has come to.
  void heard(std::size_t member, error const* failure) noexcept;

  /// Asks a member, beside others, to grant the lock. `token`: that others have granted; empty if there is
  /// none.
  void ask_for(std::size_t member, std::shared_ptr<quorum_hold> const&, std::string const& epoch_id,
               std::optional<fencing_token> token);
  /// The same on this thread, and waits as `p` says.
  ballot take(std::size_t member, std::string const& name, mutex_options const&, std::string const& epoch_id,
              std::optional<fencing_token> token, managing::patience const& p, std::stop_token);
  /// Asks a member to renew, beside others.
  void confirm(std::size_t member, std::shared_ptr<quorum_hold> const&, fencing_token,
               std::string const& epoch_id, std::chrono::milliseconds lasts);
  /// Gives back what members have granted, at once; if others wait at `last`, that one after the rest.
  /// @return how many said that it was there
  int give_back(std::vector<std::shared_ptr<holding::hold>>, std::size_t last) noexcept;
  void give_back_later(std::size_t member, std::shared_ptr<holding::hold> const&) noexcept;

  /// From now on it is renewed, and its loss reported.
  void keep(std::shared_ptr<quorum_hold> const&);
  void forget(quorum_hold const&) noexcept;
  /// Whether the calling thread holds that name.
  bool held_by_this_thread(std::string const& name) const;
  void tell(event const&) const noexcept;

  /// Runs `question` for each member beside the others, and waits for all of them.
  void ask_all(std::function<void(std::size_t)> const& question);

 private:
  struct seat {
    explicit seat(manager_ptr m) : manager(std::move(m)) {}
    manager_ptr manager;
    std::atomic<bool> suspect{false};
    errands asked;  ///< last: its threads use the rest
  };
  struct kept {
    std::shared_ptr<quorum_hold> hold;
    std::vector<boot_time_point> next;  ///< for each member
    std::thread::id by = std::this_thread::get_id();
  };

  std::shared_ptr<quorum_view const> learn();
  /// @throws error(errc::not_voting)
  std::shared_ptr<quorum_view const> view_of(std::vector<std::optional<strategies::member_state>> const&,
                                             std::optional<error> const& trouble) const;
  void run(std::stop_token);
  boot_time_point look();
  boot_time_point renew(kept&, quorum_view const&, boot_time_point now);

  std::vector<std::unique_ptr<seat>> members_;
  quorum_options const options_;
  std::chrono::milliseconds reply_timeout_{0};
  mutable std::mutex mutex_;  ///< of what follows
  std::shared_ptr<quorum_view const> view_;
  std::vector<kept> kept_;
  base::boot_waiter waiter_;
  std::jthread keeper_;  ///< last, and ended first
};

}  // namespace rowlock::recipes
