#pragma once
// The members that vote, and their epoch, as far as this program knows. lib/doc/quorum.md

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/error.hpp>
#include <string>
#include <vector>

#include "quorum/quorum_members.hpp"
#include "strategy/quorum_record.hpp"

namespace rowlock::voting {

/// The common state of all voting members.
struct quorum_view {
  strategies::member_record record;
  std::vector<bool> left_out;                     ///< managers of databases that are no members
  std::chrono::system_clock::time_point clock{};  ///< the members' median, at this time:
  boot_time_point clock_read_at{};
  /// A token for members that are asked at once; a member that knows a higher one grants that. It follows the
  /// members' clock, because this machine's might be far ahead.
  fencing_token token_now() const noexcept;
  std::size_t majority() const noexcept { return record.members.size() / 2 + 1; }
};

/// Thread-safe.
class quorum_epoch {
 public:
  explicit quorum_epoch(quorum_members& p) noexcept : members_(p) {}

  /// The known epoch. Asks the members if none is known, or one said that it votes in another quorum. (Locks
  /// of a dropped quorum end with their trust.)
  /// @throws error(errc::not_voting) if these are not the members of one quorum; a member's error if too few
  /// answer
  std::shared_ptr<quorum_view const> view();
  /// The known epoch, or null.
  std::shared_ptr<quorum_view const> known() const;
  /// Asks a member that does not vote in that epoch, and adopts a later epoch. @return the epoch known now if
  /// it is another one. Else null
  std::shared_ptr<quorum_view const> look_again(std::size_t member, std::string const& epoch_id);

 private:
  std::shared_ptr<quorum_view const> learn();
  std::shared_ptr<quorum_view const> learn_anew(std::shared_ptr<quorum_view const> const& former);
  /// @throws error(errc::not_voting)
  std::shared_ptr<quorum_view const> view_of(std::vector<std::optional<strategies::member_state>> const&,
                                             std::optional<error> const& trouble) const;

  quorum_members& members_;
  mutable std::mutex mutex_;  ///< of view_ and may_be_over_
  std::shared_ptr<quorum_view const> view_;
  bool may_be_over_ = false;  ///< a member votes in another quorum
};

}  // namespace rowlock::voting
