#pragma once

#include <cstdint>
#include <optional>
#include <rowlock/options.hpp>
#include <string>

#include "backend/backend.hpp"
#include "strategy/locking_strategy.hpp"

namespace rowlock::managing {

/// The wanted part of a lock that several owners can hold.
struct permit_spec {
  enum class kind {
    counted,  ///< a number of units
    reader,   ///< one unit, with several handles
    writer    ///< all units
  };
  kind what = kind::counted;
  std::int64_t units = 1;
  std::optional<std::int64_t> limit{};  ///< empty: as set for the name
};

/// A name and its options, checked once.
struct lock_spec {
  /// `permit`: only for strategies with permits (default: all units). `votes`: for a quorum.
  /// @throws error(errc::invalid_argument), or errc::unsupported for the database or the strategy
  lock_spec(std::string name, mutex_options, bool recursive, rowlock::strategy usual, backend::dialect const&,
            std::optional<permit_spec> permit = {}, bool votes = false);

  owner_id owner() const;  ///< of a call
  /// Precondition: known_again().
  std::int64_t thread_of_owner() const noexcept;
  /// Whether unlock() can find the lock that lock() took.
  bool known_again() const noexcept { return !std::holds_alternative<each_acquire>(options.owner); }
  /// Whether only one thread of this process can have the name.
  bool alone() const noexcept { return !permit || permit->what == permit_spec::kind::writer; }
  bool is(permit_spec::kind k) const noexcept { return permit && permit->what == k; }

  std::string name;
  mutex_options options;
  rowlock::strategy strategy;
  bool fencing;
  bool recursive;
  std::optional<permit_spec> permit;
};

}  // namespace rowlock::managing
