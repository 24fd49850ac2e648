#pragma once
// Asks a quorum's members for locks, and renews them on a thread of its own. lib/doc/quorum.md

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
  /// A forked child lacks the threads, and its waits might never end.
  bool forked() const noexcept { return fork_epoch_ != base::fork_epoch(); }
  /// @throws error(errc::forked)
  void refuse_if_forked() const;
  /// @throws as quorum_epoch::view()
  std::shared_ptr<quorum_view const> view() { return epoch_.view(); }
  /// For a member that says that it does not vote in that epoch. @return whether another epoch is known now
  bool look_again(std::size_t member, std::string const& epoch_id);

  /// Whether a token is more than a year ahead of this machine's clock, and so wrong.
  static bool is_far_ahead(fencing_token) noexcept;
  /// Asks a member to grant the lock, on another thread. `token`: granted by other members; empty: none.
  /// `former`: released before; if an operator revoked it, the member is not asked.
  void ask_for(std::size_t member, std::shared_ptr<quorum_hold> const&, std::string const& epoch_id,
               std::optional<fencing_token> token, quorum_hold::former_grant const& former = {});
  /// The same on this thread, with the waits of `p`.
  ballot take(std::size_t member, std::string const& name, mutex_options const&, strategies::wanted_vote,
              managing::wait_policy p, std::stop_token);
  /// Asks a member to renew, on another thread.
  void confirm(std::size_t member, std::shared_ptr<quorum_hold> const&, fencing_token,
               std::string const& epoch_id, std::chrono::milliseconds lasts);
  /// Releases the members' grants at once; `last` after the others if callers wait there. @return the number
  /// of released members
  int give_back(std::vector<std::shared_ptr<holding::hold>>, std::size_t last) noexcept;

  /// Renews the lock and reports its loss from now on. @throws std::system_error if no thread can be started
  void keep(std::shared_ptr<quorum_hold> const&);
  void forget(quorum_hold const&) noexcept;
  bool held_by_this_thread(std::string const& name) const;
  void report(event const&) const noexcept;
  void tell_ended(quorum_hold const&) const noexcept;
  /// Call it once: quorum_hold::announcement_is_due().
  void tell_loss(quorum_hold&) const noexcept;

 private:
  /// @return whether an operator had revoked it
  bool give_back_former(std::size_t member, std::shared_ptr<holding::hold> const&);
  /// Whether other threads of this process wait there.
  bool is_waited_for(std::size_t member, holding::hold const&) const;
  void give_back_later(std::size_t member, std::shared_ptr<holding::hold> const&) noexcept;

  struct kept {
    std::shared_ptr<quorum_hold> hold;
    std::vector<boot_time_point> next;  ///< by member
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
  mutable std::mutex mutex_;  ///< of kept_ and keeper_
  std::vector<kept> kept_;
  base::boot_waiter waiter_;
  std::jthread keeper_;  ///< last, and ended first
};

}  // namespace rowlock::recipes
