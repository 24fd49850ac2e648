#pragma once
// Names for rowlock's threads, for top -H, gdb and core dumps.

#include <pthread.h>

namespace rowlock::base {

/// Names the calling thread. The system shows 15 characters.
inline void name_thread(char const* name) noexcept { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace rowlock::base
