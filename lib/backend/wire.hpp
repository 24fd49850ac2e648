#pragma once
// What a connected socket tells of itself.

#include <rowlock/export.hpp>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// Fills in what can be read off a socket; nothing if it is none.
ROWLOCK_EXPORT void read_wire(int fd, session_facts& to) noexcept;

}  // namespace rowlock::backend
