#pragma once

#include <cstdint>
#include <rowlock/types.hpp>

namespace rowlock::managing {

/// The calling thread as an owner: host, pid, a random id of this process (a new one in a forked child:
/// containers share host names and pid 1, and pids are reused), and a number of the thread that is never used
/// again.
owner_id this_thread_owner();

/// Its number, which an owner_id has as `thread`.
std::int64_t this_thread_number() noexcept;

/// One that no other call of this process gives, of this function or the former one.
owner_id fresh_owner();

/// An owner that is not bound to a process or thread; host and pid are for people.
owner_id explicit_owner(std::string const& text);

}  // namespace rowlock::managing
