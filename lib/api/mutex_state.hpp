#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <rowlock/mutex.hpp>

#include "base/fork_epoch.hpp"
#include "manager/manager.hpp"

namespace rowlock {

/// Shared with the calls that are under way: a policy or hook, and the end of the process, may destroy the
/// mutex meanwhile.
struct basic_mutex::state {
  state(std::shared_ptr<managing::manager> m, managing::lock_spec s)
      : manager(std::move(m)), spec(std::move(s)) {}

  std::shared_ptr<managing::manager> manager;
  managing::lock_spec spec;
  unsigned epoch = base::fork_epoch();
  mutable std::mutex mutex;
  /// What lock() took, by owner's thread number (0 for an explicit owner, whose work may hop threads). A
  /// deque keeps current()'s pointers where they are.
  std::map<std::int64_t, std::deque<held_lock>> kept;
  /// Set where this has to stay although the mutex is gone: in a forked child, whose parent may have been
  /// amid lock(), and at the end of the process, where threads that go on may use a static mutex after its
  /// end.
  std::shared_ptr<state> self;
  decltype(kept) given_back;  ///< then: current()'s pointers

  acquisition acquire(managing::wait_policy, std::stop_token);
  bool keep(acquisition taken);
  void give_back_all() noexcept;
  void say_not_this_threads() const noexcept;
};

}  // namespace rowlock
