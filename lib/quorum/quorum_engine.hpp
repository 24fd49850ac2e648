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
#include "quorum/names_in_demand.hpp"
#include "quorum/quorum_epoch.hpp"
#include "quorum/quorum_hold.hpp"
#include "quorum/quorum_members.hpp"

namespace rowlock::voting {

/// Asks the other members while a call that waited at one of them is first there. On the call's thread.
class asks_others {
 public:
  virtual ~asks_others() = default;
  /// @return the token to ask for
  virtual fencing_token asks() = 0;
  virtual void refused() = 0;
};

/// How one member is asked.
struct question {
  strategies::wanted_vote vote;
  std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< of the wait there; empty: none
  bool has_others_to_ask = false;
  asks_others* in_front = nullptr;
};

/// Thread-safe.
class quorum_engine {
 public:
  quorum_engine(std::vector<managing::member> members, quorum_options options);
  ~quorum_engine();
  quorum_engine(quorum_engine const&) = delete;
  quorum_engine& operator=(quorum_engine const&) = delete;

  quorum_members& members() noexcept { return members_; }
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
  /// The same on this thread.
  ballot take(std::size_t member, std::string const& name, mutex_options const&, question const&,
              std::stop_token);
  /// Asks a member to renew, on another thread.
  void confirm(std::size_t member, std::shared_ptr<quorum_hold> const&, fencing_token,
               std::string const& epoch_id, std::chrono::milliseconds lasts);
  /// Releases the members' grants at once; `last` after the others if callers wait there. @return the number
  /// of released members
  int give_back(std::vector<managing::granted_vote>, std::size_t last) noexcept;

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
  bool give_back_former(std::size_t member, managing::granted_vote const&);
  void give_back_later(std::size_t member, managing::granted_vote const&) noexcept;

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
  quorum_members members_;
  quorum_epoch epoch_;
  names_in_demand in_demand_;
  mutable std::mutex mutex_;  ///< of kept_ and keeper_
  std::vector<kept> kept_;
  base::boot_waiter waiter_;
  std::jthread keeper_;  ///< last, and ended first
};

}  // namespace rowlock::voting
