#pragma once

#include <memory>
#include <rowlock/semaphore.hpp>

#include "manager/manager.hpp"

namespace rowlock {

/// Shared with calls that are under way.
struct semaphore::state {
  state(std::shared_ptr<managing::manager> m, managing::lock_spec s)
      : manager(std::move(m)), spec(std::move(s)) {}

  managing::lock_spec of(std::int64_t units) const;

  std::shared_ptr<managing::manager> manager;
  managing::lock_spec spec;
};

}  // namespace rowlock
