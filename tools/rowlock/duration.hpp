#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace rowlock::tool {

/// What parse_duration understands, for messages.
inline constexpr char const* duration_forms = "a whole number and a unit: 250ms, 30s, 10m, 2h, 1d";

/// "250ms", "30s", "10m", "2h", "1d", "0". Nothing if it is anything else, or more than 100 years.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view) noexcept;

/// For people, to the tenth of a second: "29.5s", "250ms", "3m 20s", "2h 5m".
std::string format_duration(std::chrono::milliseconds);

}  // namespace rowlock::tool
