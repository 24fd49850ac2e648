#pragma once
// What is asked of each member of a quorum for a lock, and the thread that renews. lib/doc/quorum.md

#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/quorum.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/boot_waiter.hpp"
#include "base/fork_epoch.hpp"
#include "manager/wait_policy.hpp"
#include "recipes/names_in_demand.hpp"
#include "recipes/quorum_epoch.hpp"
#include "recipes/quorum_hold.hpp"
#include "recipes/quorum_peers.hpp"

namespace rowlock::recipes {

/// Thread-safe.
class quorum_crew {
 public:
  quorum_crew(std::vector<quorum_peers::manager_ptr> members, quorum_options options);
  ~quorum_crew();
  quorum_crew(quorum_crew const&) = delete;
  quorum_crew& operator=(quorum_crew const&) = delete;

  quorum_peers& peers() noexcept { return peers_; }
  names_in_demand& in_demand() noexcept { return in_demand_; }
  /// In a forked child: its threads don't exist there, and what it waits for may never come.
  bool forked() const noexcept { return fork_epoch_ != base::fork_epoch(); }
  /// @throws error(errc::forked)
  void refuse_if_forked() const;
  /// @throws as quorum_epoch::view()
  std::shared_ptr<quorum_view const> view() { return epoch_.view(); }
  /// A member has said that it does not vote in that epoch. @return whether another epoch is known now
  bool look_again(std::size_t member, std::string const& epoch_id);

  /// Of this machine's clock, by more than a year: nobody's token is.
  static bool is_far_ahead(fencing_token) noexcept;
  /// Asks a member, beside others, to grant the lock. `token`: that others have granted; empty if there is
  /// none. `former`: is given back before, and if an operator has revoked it, the member is not asked.
  void ask_for(std::size_t member, std::shared_ptr<quorum_hold> const&, std::string const& epoch_id,
               std::optional<fencing_token> token, quorum_hold::former_grant const& former = {});
  /// The same on this thread, and waits as `p` says.
  ballot take(std::size_t member, std::string const& name, mutex_options const&, strategies::wanted_vote,
              managing::wait_policy p, std::stop_token);
  /// Asks a member to renew, beside others.
  void confirm(std::size_t member, std::shared_ptr<quorum_hold> const&, fencing_token,
               std::string const& epoch_id, std::chrono::milliseconds lasts);
  /// Gives back what members have granted, at once; if others wait at `last`, that one after the rest.
  /// @return how many said that it was there
  int give_back(std::vector<std::shared_ptr<holding::hold>>, std::size_t last) noexcept;

  /// From now on it is renewed, and its loss reported. @throws std::system_error if there is no thread to be
  /// had for that
  void keep(std::shared_ptr<quorum_hold> const&);
  void forget(quorum_hold const&) noexcept;
  /// Whether the calling thread holds that name.
  bool held_by_this_thread(std::string const& name) const;
  void tell(event const&) const noexcept;
  void tell_ended(quorum_hold const&) const noexcept;
  /// Once: quorum_hold::announcement_is_due().
  void tell_loss(quorum_hold&) const noexcept;

 private:
  /// @return whether an operator had revoked it
  bool give_back_former(std::size_t member, std::shared_ptr<holding::hold> const&);
  /// Other threads of this process stand in line there.
  bool is_waited_for(std::size_t member, holding::hold const&) const;
  void give_back_later(std::size_t member, std::shared_ptr<holding::hold> const&) noexcept;

  struct kept {
    std::shared_ptr<quorum_hold> hold;
    std::vector<boot_time_point> next;  ///< for each member
    std::thread::id by = std::this_thread::get_id();
  };

  void run(std::stop_token);
  boot_time_point look();
  boot_time_point look_in_any_case() noexcept;
  static void leave_out_others(quorum_hold&, quorum_view const&);
  boot_time_point renew(kept&, quorum_view const&, boot_time_point now);

  unsigned const fork_epoch_ = base::fork_epoch();
  quorum_options const options_;
  quorum_peers peers_;
  quorum_epoch epoch_;
  names_in_demand in_demand_;
  mutable std::mutex mutex_;  ///< of what follows
  std::vector<kept> kept_;
  base::boot_waiter waiter_;
  std::jthread keeper_;  ///< last, and ended first
};

}  // namespace rowlock::recipes
