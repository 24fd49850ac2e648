#pragma once
// Which databases vote, in which epoch, as far as this program knows. lib/doc/quorum.md

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/error.hpp>
#include <string>
#include <vector>

#include "recipes/quorum_peers.hpp"
#include "strategy/quorum_member.hpp"

namespace rowlock::recipes {

/// What all members that vote have in common.
struct quorum_view {
  strategies::member_record record;
  std::vector<bool> left_out;                     ///< managers whose database is none of the members
  std::chrono::system_clock::time_point clock{};  ///< of the member in the middle, at this time:
  boot_time_point clock_read_at{};
  /// What members, asked at once, are to grant if they don't know a higher one: as they draw tokens, from a
  /// clock, but not from this machine's. One that is far ahead would take tokens up with it.
  fencing_token token_now() const noexcept;
  std::size_t majority() const noexcept { return record.members.size() / 2 + 1; }
};

/// Thread-safe.
class quorum_epoch {
 public:
  explicit quorum_epoch(quorum_peers& p) noexcept : peers_(p) {}

  /// The epoch as far as it is known; asks the members if it is not known yet, or if one of them has said
  /// that it votes in another quorum. (What is held in a quorum that was dropped ends with its trust.)
  /// @throws error(errc::not_voting) if these are not the members of one quorum; what the members say if too
  /// few of them answer
  std::shared_ptr<quorum_view const> view();
  /// The epoch as far as it is known, or null.
  std::shared_ptr<quorum_view const> known() const;
  /// A member has said that it does not vote in that epoch: asks it, and goes on to a later epoch.
  /// @return the epoch that is known now, if it is another one; else null
  std::shared_ptr<quorum_view const> look_again(std::size_t member, std::string const& epoch_id);

 private:
  std::shared_ptr<quorum_view const> learn();
  std::shared_ptr<quorum_view const> learn_anew(std::shared_ptr<quorum_view const> const& former);
  /// @throws error(errc::not_voting)
  std::shared_ptr<quorum_view const> view_of(std::vector<std::optional<strategies::member_state>> const&,
                                             std::optional<error> const& trouble) const;

  quorum_peers& peers_;
  mutable std::mutex mutex_;  ///< of what follows
  std::shared_ptr<quorum_view const> view_;
  bool may_be_over_ = false;  ///< a member votes in another quorum
};

}  // namespace rowlock::recipes
