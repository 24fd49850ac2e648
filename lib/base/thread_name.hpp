#pragma once
// Each thread that rowlock starts has a name: top -H, gdb and core dumps show whose it is.

#include <pthread.h>

namespace rowlock::base {

/// Names the calling thread; of `name`, 15 characters are shown.
inline void name_thread(char const* name) noexcept { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace rowlock::base
