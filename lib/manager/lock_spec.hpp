#pragma once

#include <rowlock/options.hpp>
#include <string>

#include "backend/backend.hpp"

namespace rowlock::managing {

/// A name and how it is to be locked, checked once.
struct lock_spec {
  /// @throws error(errc::invalid_argument) naming what is wrong; errc::unsupported for a strategy that the
  /// database does not have
  lock_spec(std::string name, mutex_options, bool recursive, rowlock::strategy usual,
            backend::dialect const&);

  owner_id owner() const;  ///< of a call that takes it
  /// Whether unlock() finds again what lock() took.
  bool known_again() const noexcept { return !std::holds_alternative<each_acquire>(options.owner); }

  std::string name;
  mutex_options options;
  rowlock::strategy strategy;
  bool fencing;
  bool recursive;
};

}  // namespace rowlock::managing
