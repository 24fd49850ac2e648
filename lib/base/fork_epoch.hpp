#pragma once

#include <rowlock/export.hpp>

namespace rowlock::base {

/// Differs between a process and its forked children. Objects of another epoch belong to the parent
/// (connections, locks) or no longer exist (threads). Their mutexes can stay locked for ever.
ROWLOCK_EXPORT unsigned fork_epoch() noexcept;

}  // namespace rowlock::base
