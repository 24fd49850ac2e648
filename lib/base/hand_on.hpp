#pragma once
// The order between a term that goes from thread to thread of a process and the next grant of its name, where
// the term was taken away by force: lib/doc/hand_on.md. [C62]

#include <chrono>

namespace rowlock::base {

/// How long nobody is granted a name whose term was taken away by force, by the boot clock of the session
/// that took it away.
inline constexpr std::chrono::milliseconds closed_for{500};

/// How long a term may go from thread to thread after the statement was sent whose reply confirmed it last:
/// shorter, because two clocks differ by 1 %, and a round trip to a distant server must fit in.
inline constexpr std::chrono::milliseconds confirmed_for{400};

}  // namespace rowlock::base
