#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <rowlock/mutex.hpp>

#include "base/fork_epoch.hpp"
#include "process/manager.hpp"

namespace rowlock {

struct basic_mutex::state {
  state(std::shared_ptr<process::manager> m, process::lock_spec s)
      : manager(std::move(m)), spec(std::move(s)) {}

  std::shared_ptr<process::manager> manager;
  process::lock_spec spec;
  unsigned epoch = base::fork_epoch();
  mutable std::mutex mutex;
  /// What lock() took, by owner's thread number (0 for an explicit owner, whose work may hop threads). A
  /// deque keeps current()'s pointers where they are.
  std::map<std::int64_t, std::deque<held_lock>> kept;
};

}  // namespace rowlock
