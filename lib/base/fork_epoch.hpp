#pragma once

namespace rowlock::base {

/// Differs in a process and in the children that it forks: whatever was made in another epoch belongs to the
/// parent (its connections, its locks) or no longer exists (its threads), and mutexes may stand locked for
/// ever.
unsigned fork_epoch() noexcept;

}  // namespace rowlock::base
