#pragma once
// The first packet that a server sends. It comes in clear, also where TLS follows, and the client library
// reads beyond its end, or follows a null pointer, if it is not as the protocol says. So it is looked at
// before.

#include <string_view>

#include <rowlock/types.hpp>

namespace rowlock::backend::mysql {

/// Longer than any server's. A version has some 60 bytes, and a method's name some 30.
inline constexpr std::size_t longest_greeting = 1024;

/// Whether `packet`, with its head, is a greeting of protocol 10, or an error that a server says instead.
/// Bytes that are missing at its end are no greeting.
bool is_greeting(std::string_view packet);

/// Waits for the first packet on a connected socket, and leaves it there for whoever reads next.
/// @return false if it is none that the client library may read. True also if the connection ended before.
bool expect_greeting(int fd, boot_time_point deadline);

}  // namespace rowlock::backend::mysql
