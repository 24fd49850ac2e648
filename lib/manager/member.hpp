#pragma once
// A lock_manager as the member of a quorum: all that lib/quorum knows of the folders below it, except for
// base. lib/doc/quorum.md

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <rowlock/export.hpp>
#include <rowlock/options.hpp>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "strategy/quorum_record.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
class lock_manager;
}
namespace rowlock::holding {
class hold;
}

namespace rowlock::managing {

class manager;

/// The quorum's part in a call that takes a vote, on the thread of that call.
class quorum_hook {
 public:
  virtual ~quorum_hook() = default;
  /// The vote that the next attempt asks for. `in_front`: the call has waited, and is first now; true once in
  /// a call. Then the hook may ask the other members, too.
  virtual strategies::wanted_vote asks(bool in_front) = 0;
  /// The attempt in front was refused, failed, or came too late.
  virtual void refused() = 0;
  /// A grant came after trust had ended: this process may have been stopped, and the member is not silent.
  virtual void came_too_late() = 0;
  /// Whether an outage, or a row that stays locked without a holder, ends the call.
  virtual bool has_others_to_ask() const noexcept = 0;
};

/// A term that a member has granted, or none. Copies are of one term. Thread-safe.
class ROWLOCK_EXPORT granted_vote {
 public:
  granted_vote() noexcept = default;
  explicit granted_vote(std::shared_ptr<holding::hold> h) noexcept : hold_(std::move(h)) {}

  explicit operator bool() const noexcept { return hold_ != nullptr; }
  // Preconditions of all others: it is a term.
  term_id const& term() const noexcept;
  /// As granted.
  fencing_token token() const noexcept;
  boot_time_point sent_at() const noexcept;
  boot_time_point trusted_until() const noexcept;
  bool valid() const noexcept;
  std::optional<loss_reason> loss() const noexcept;
  /// For a term that was of no use to the program.
  void forget_at_least() noexcept;

 private:
  friend class member;
  std::shared_ptr<holding::hold> hold_;
};

/// Until when a grant is trusted that lasts so long, and was asked for at `sent_at`.
ROWLOCK_EXPORT boot_time_point trust_of_vote(boot_time_point sent_at,
                                             std::chrono::milliseconds lasts) noexcept;

/// Thread-safe. Calls wait for replies, for reply_timeout at most, and throw error.
class ROWLOCK_EXPORT member {
 public:
  explicit member(lock_manager const&);  ///< in lib/api, which knows lock_managers

  std::string const& describe() const noexcept;
  std::chrono::milliseconds reply_timeout() const noexcept;
  std::chrono::milliseconds release_timeout() const noexcept;
  /// Of the database. Empty: not known yet.
  std::string database_id() const;
  /// One text for all databases of a server. Known after another call.
  std::string server() const;

  /// @throws error as lock_manager::make_mutex()
  void check(std::string name, mutex_options) const;
  struct answer {
    granted_vote granted{};
    acquire_status why = acquire_status::acquired;
    std::optional<holder_info> holder{};
  };
  /// Without a deadline: one attempt.
  answer take(std::string name, mutex_options, quorum_hook&,
              std::optional<std::chrono::steady_clock::time_point> deadline, std::stop_token) const;
  release_result release(granted_vote const&) const noexcept;
  /// Whether callers wait for it: in the server's queue, or in this process.
  bool is_waited_for(granted_vote const&) const;
  /// Renews the term, and raises its token to the highest of all granting members. @return false if lost here
  /// @throws error(errc::not_voting) if the member does not vote in that epoch. The lock is as before
  bool confirm(granted_vote const&, fencing_token, std::string const& epoch_id,
               std::chrono::milliseconds lasts) const;
  /// Whether an operator has revoked the term, even if it has expired since.
  bool is_revoked(granted_vote const&) const;

  strategies::member_state read(bool with_highest) const;
  /// @return false if its epoch is not that one (empty: none)
  bool write(std::string const& former_epoch_id, strategies::member_record const&) const;
  /// Later tokens are higher than this one.
  void raise_tokens(fencing_token) const;

  std::vector<lock_info> list(list_options const&) const;
  bool revoke(std::string const& name, revoke_mode) const;

 private:
  std::shared_ptr<manager> manager_;
};

}  // namespace rowlock::managing
