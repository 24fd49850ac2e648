#pragma once

#include <cstdint>
#include <rowlock/types.hpp>

namespace rowlock::managing {

/// The calling thread: host, pid, a random id of the process, and a thread number that is never used again.
/// The random id (a new one in a forked child) is needed because containers share host names and pids.
owner_id this_thread_owner();

/// owner_id::thread of the calling thread.
std::int64_t this_thread_number() noexcept;

/// A new owner for each call.
owner_id fresh_owner();

/// An owner without a process or thread. Host and pid are for people.
owner_id explicit_owner(std::string const& text);

}  // namespace rowlock::managing
