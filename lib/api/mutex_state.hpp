#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <rowlock/mutex.hpp>

#include "base/fork_epoch.hpp"
#include "manager/manager.hpp"

namespace rowlock {

/// Shared with calls that are under way: a policy, a hook or the end of the process can destroy the mutex
/// meanwhile.
struct basic_mutex::state {
  state(std::shared_ptr<managing::manager> m, managing::lock_spec s)
      : manager(std::move(m)), spec(std::move(s)) {}

  std::shared_ptr<managing::manager> manager;
  managing::lock_spec spec;
  unsigned epoch = base::fork_epoch();
  mutable std::mutex mutex;
  /// Locks taken by lock(), by the owner's thread number (0 for an explicit owner). A deque, because
  /// current() returns pointers.
  std::map<std::int64_t, std::deque<held_lock>> kept;
  /// Set to outlive the mutex: in a forked child, whose parent might have been inside lock(), and at the end
  /// of the process, where threads might use a static mutex after its end.
  std::shared_ptr<state> self;
  decltype(kept) given_back;  ///< with `self` set, for current()'s pointers

  acquisition acquire(managing::wait_policy, std::stop_token);
  bool keep(acquisition taken);
  void give_back_all() noexcept;
  void say_not_this_threads() const noexcept;
};

}  // namespace rowlock
