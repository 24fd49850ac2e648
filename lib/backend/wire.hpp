#pragma once
// What can be known about a connected socket.

#include <rowlock/export.hpp>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// Fills in what can be read from a socket; nothing if the descriptor is not a socket.
ROWLOCK_EXPORT void read_wire(int fd, session_facts& to) noexcept;

}  // namespace rowlock::backend
