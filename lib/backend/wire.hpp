#pragma once
// What can be known about a connected socket.

#include <cstdint>
#include <optional>
#include <rowlock/export.hpp>

#include "backend/backend.hpp"

namespace rowlock::backend {

/// What is read of one reply at most: as much as a list of some 40,000 locks has.
inline constexpr std::uint64_t most_reply_bytes = 8u << 20u;
/// And during a log-in, or a session's set-up, when nothing is known about the server yet.
inline constexpr std::uint64_t most_early_bytes = 1u << 20u;

/// How much has come so far, encrypted or not, read or not; nothing if it is no TCP connection, which alone
/// counts.
ROWLOCK_EXPORT std::optional<std::uint64_t> received_bytes(int fd) noexcept;

/// Fills in what can be read from a socket; nothing if the descriptor is not a socket.
ROWLOCK_EXPORT void read_wire(int fd, session_facts& to) noexcept;

}  // namespace rowlock::backend
