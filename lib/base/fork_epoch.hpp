#pragma once

#include <rowlock/export.hpp>

namespace rowlock::base {

/// Differs in a process and in the children that it forks: whatever was made in another epoch belongs to the
/// parent (its connections, its locks) or no longer exists (its threads), and mutexes may stand locked for
/// ever.
ROWLOCK_EXPORT unsigned fork_epoch() noexcept;

}  // namespace rowlock::base
