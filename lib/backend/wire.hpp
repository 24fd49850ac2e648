#pragma once
// Facts about a connected socket.

#include <cstdint>
#include <optional>
#include <rowlock/export.hpp>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// The most bytes of one reply: a list of some 40,000 locks.
inline constexpr std::uint64_t most_reply_bytes = 8u << 20u;
/// The most bytes of a log-in or a session's set-up, before the server is known.
inline constexpr std::uint64_t most_early_bytes = 1u << 20u;

/// Bytes received so far, encrypted or not, read or not. Empty unless it is a TCP connection.
ROWLOCK_EXPORT std::optional<std::uint64_t> received_bytes(int fd) noexcept;

/// Fills in the facts that a socket tells. Does nothing if `fd` is not a socket.
ROWLOCK_EXPORT void read_wire(int fd, session_facts& to) noexcept;

}  // namespace rowlock::backend
