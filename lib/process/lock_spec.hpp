#pragma once

#include <rowlock/options.hpp>
#include <string>

namespace rowlock::process {

/// A name and how it is to be locked, checked once.
struct lock_spec {
  /// @throws error(errc::invalid_argument) naming what is wrong; errc::unsupported for a strategy that is not
  /// there
  lock_spec(std::string name, mutex_options, bool recursive);

  owner_id owner() const;  ///< explicit, or the calling thread

  std::string name;
  mutex_options options;
  bool recursive;
};

}  // namespace rowlock::process
