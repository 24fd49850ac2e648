#pragma once
// A server's first packet, in clear also where TLS follows. If it breaks the protocol, the client library
// reads beyond its end, or follows a null pointer. So rowlock looks at it before.

#include <string_view>

#include <rowlock/types.hpp>

namespace rowlock::backend::mysql {

/// In bytes. A version has some 60, a method's name some 30.
inline constexpr std::size_t longest_greeting = 1024;

/// Whether `packet`, with its head, is a whole greeting of protocol 10, or an error in its place.
bool is_greeting(std::string_view packet);

/// Waits for the first packet, and leaves it in the socket. @return false if the client library may not read
/// it, or at the deadline. True also if the connection ended before.
bool expect_greeting(int fd, boot_time_point deadline);

}  // namespace rowlock::backend::mysql
