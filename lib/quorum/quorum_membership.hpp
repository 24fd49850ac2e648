#pragma once
// The members of a quorum: init, join, drop and status. lib/doc/quorum.md

#include <chrono>
#include <functional>
#include <optional>
#include <rowlock/quorum.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "quorum/quorum_members.hpp"
#include "strategy/quorum_record.hpp"

namespace rowlock::voting {

/// Made for one call.
class quorum_membership {
 public:
  explicit quorum_membership(quorum_members& p) noexcept : members_(p) {}

  std::vector<quorum_member_info> status();
  void init(std::chrono::milliseconds max_ttl, std::stop_token const&);
  void join(std::size_t place, std::string const& replaces, std::stop_token const&);
  quorum_outcome drop();
  /// Calls `what` for each member; it returns whether the member did it. @throws a member's error if fewer
  /// than `needed` could be asked
  quorum_outcome change(std::size_t needed, std::function<bool(std::size_t)> const& what);

 private:
  struct answer {
    std::optional<strategies::member_state> state{};
    std::optional<error> failure{};
  };
  std::vector<answer> ask(bool with_highest);
  /// Precondition: all have answered. @throws error(errc::invalid_argument)
  void refuse_who_must_join(std::vector<answer> const&) const;
  /// Raises the tokens of `those` to the highest of all `asked`. @throws the error of a member without an
  /// answer
  void raise_to_highest(std::vector<answer> const& asked, std::vector<std::size_t> const& those) const;
  void wait_for_who_may_have_voted(std::vector<std::size_t> const& those, std::chrono::milliseconds max_ttl,
                                   std::stop_token const&);
  error changed_meanwhile(std::size_t member) const;
  strategies::member_record next_epoch(std::vector<answer> const&, std::size_t place,
                                       std::string const& replaces) const;

  quorum_members& members_;
};

}  // namespace rowlock::voting
