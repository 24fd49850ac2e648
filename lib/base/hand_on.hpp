#pragma once
// Time limits that put each hand-off before the next grant of a name whose term was taken away by force:
// lib/doc/hand_on.md. [C62]

#include <chrono>

namespace rowlock::base {

/// The time for which a name then stays closed, by the boot clock of the session that took the term away.
inline constexpr std::chrono::milliseconds closed_for{500};

/// The time for a hand-off, from before the sending of the statement that last confirmed the term. It is
/// shorter than closed_for: two clocks differ by 1 %, and a round trip to a distant server must fit in.
inline constexpr std::chrono::milliseconds confirmed_for{400};

}  // namespace rowlock::base
