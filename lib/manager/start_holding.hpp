#pragma once
// From a grant to a lock that is held: from here on it is renewed, watched, and told of.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <string>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing {

/// What a grant of `term` to `owner` is.
holding::grant_facts facts_of(lock_spec const&, owner_id const& owner, fencing_token, term_id const& term,
                              boot_time_point sent_at, std::size_t server);

/// What a call has won.
struct granted_lock {
  holding::grant_facts facts;
  waiting::local_queue::turn turn;
  std::optional<holding::session_pinger::anchor> session;  ///< of a strategy that owns it
  std::optional<waiting::wait_queues::ticket> queue;
  bool had_to_wait = false;
  std::chrono::nanoseconds waited{0};
};

/// Whether it is lost, or its holder is about to be told so, before its caller has it in hand.
bool is_too_late(holding::hold const&) noexcept;
/// What is said then to who asks once. `name`: of the lock, or the first of them
error too_late(std::string const& name);

/// How what can't be held after all is given back.
enum class when_unwatched {
  give_back,       ///< at once
  give_back_later  ///< by the manager's threads: the caller must not reach the database
};
/// @return null if the manager was closed meanwhile, or the process ends; then the lock has been given back
/// @throws std::system_error, std::bad_alloc if no thread is to be had for it; it has been given back
std::shared_ptr<holding::hold> start_holding(engine&, granted_lock,
                                             when_unwatched = when_unwatched::give_back);

}  // namespace rowlock::managing
