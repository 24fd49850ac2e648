#pragma once
// From a grant to a held lock: from here on it is renewed, watched and reported.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <string>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing {

holding::grant_facts facts_of(lock_spec const&, owner_id const& owner, fencing_token, term_id const& term,
                              boot_time_point sent_at, std::size_t server);

struct granted_lock {
  holding::grant_facts facts;
  waiting::local_queue::turn turn;
  std::optional<holding::session_pinger::anchor> session;  ///< if the strategy owns one
  std::optional<waiting::wait_queues::ticket> queue;
  bool had_to_wait = false;
  std::chrono::nanoseconds waited{0};
};

/// Whether its loss has been, or is about to be, reported before its caller has it.
bool is_too_late(holding::hold const&) noexcept;
error too_late(std::string const& name);

/// The release of a lock that can't be held.
enum class when_unwatched {
  give_back,
  give_back_later  ///< by the renewer: the caller must not reach the database
};
/// If it returns null (the manager was closed, or the process ends) or throws, the lock has been released.
/// @throws std::system_error, std::bad_alloc without a thread or memory
std::shared_ptr<holding::hold> start_holding(engine&, granted_lock,
                                             when_unwatched = when_unwatched::give_back);

}  // namespace rowlock::managing
