#pragma once

#include <cstdint>
#include <optional>
#include <rowlock/options.hpp>
#include <string>

#include "backend/backend.hpp"
#include "strategy/locking_strategy.hpp"

namespace rowlock::managing {

/// Of a lock that several may hold: how much of it is wanted.
struct permit_spec {
  enum class kind {
    counted,  ///< a part of what there is
    reader,   ///< one of many; a thread may be so again
    writer    ///< all of it: nobody else of this process can have the name meanwhile
  };
  kind what = kind::counted;
  std::int64_t units = 1;
  std::optional<std::int64_t> limit{};  ///< empty: the one that was set for the name
};

/// A name and how it is to be locked, checked once.
struct lock_spec {
  /// `permit`: for strategies that count, and only for these; without one all of it is wanted. `vote`: for
  /// the strategy whose locks several databases grant, and only for that.
  /// @throws error(errc::invalid_argument) naming what is wrong; errc::unsupported for a strategy that the
  /// database does not have
  lock_spec(std::string name, mutex_options, bool recursive, rowlock::strategy usual, backend::dialect const&,
            std::optional<permit_spec> permit = {}, std::optional<strategies::wanted_vote> vote = {});

  owner_id owner() const;  ///< of a call that takes it
  /// owner().thread, if that is known again.
  std::int64_t thread_of_owner() const noexcept;
  /// Whether unlock() finds again what lock() took.
  bool known_again() const noexcept { return !std::holds_alternative<each_acquire>(options.owner); }
  /// Whether nobody else of this process can have the name meanwhile.
  bool alone() const noexcept { return !permit || permit->what == permit_spec::kind::writer; }
  bool is(permit_spec::kind k) const noexcept { return permit && permit->what == k; }

  std::string name;
  mutex_options options;
  rowlock::strategy strategy;
  bool fencing;
  bool recursive;
  std::optional<permit_spec> permit;
  std::optional<strategies::wanted_vote> vote;
};

}  // namespace rowlock::managing
