#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace rowlock::tool {

/// What parse_duration understands, for messages.
inline constexpr char const* duration_forms =
    "a whole number and a unit: 250ms, 30s, 10m, 2h, 1d; 36500d at most";

/// "250ms", "30s", "10m", "2h", "1d", "0". Nothing if it is anything else, or more than 100 years (36500d).
std::optional<std::chrono::milliseconds> parse_duration(std::string_view) noexcept;

/// As flock(1) has it: a plain number is seconds, fractions allowed: "10", "0.5". Also what parse_duration
/// understands.
std::optional<std::chrono::milliseconds> parse_seconds(std::string_view) noexcept;

/// Exactly, as parse_duration understands it: "14500ms", "41s".
std::string exact_duration(std::chrono::milliseconds);

/// For people, to the tenth of a second: "29.5s", "250ms", "3m 20s", "2h 5m".
std::string format_duration(std::chrono::milliseconds);

}  // namespace rowlock::tool
