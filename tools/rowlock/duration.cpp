#include "duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace rowlock::tool {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> units{
    {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
// 100 years, as the library counts them: what it keeps at most.
constexpr std::int64_t longest = std::int64_t{100} * 365 * 86'400'000;

}  // namespace

std::optional<milliseconds> parse_duration(std::string_view text) noexcept {
  if (text == "0") return milliseconds{0};
  std::int64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0) return std::nullopt;
  std::string_view const unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (auto const& [name, factor] : units)
    if (unit == name && number <= longest / factor) return milliseconds{number * factor};
  return std::nullopt;
}

std::optional<milliseconds> parse_seconds(std::string_view text) noexcept {
  double number = 0;
  auto const* const text_end = text.data() + text.size();
  auto const [end, error] = std::from_chars(text.data(), text_end, number, std::chars_format::fixed);
  if (error != std::errc{} || end != text_end) return parse_duration(text);
  bool const fits = number >= 0 && number * 1'000 <= static_cast<double>(longest);  // false for a NaN, too
  if (!fits) return std::nullopt;
  return std::chrono::ceil<milliseconds>(std::chrono::duration<double>(number));
}

std::string exact_duration(milliseconds d) {
  return d.count() % 1'000 == 0 ? fmt::format("{}s", d.count() / 1'000) : fmt::format("{}ms", d.count());
}

std::string format_duration(milliseconds d) {
  auto const ms = d.count();
  if (ms < 0) return "-" + format_duration(-std::max(d, -milliseconds::max()));  // the least has no opposite
  if (ms < 1'000) return fmt::format("{}ms", ms);
  if (ms < 60'000)
    return ms % 1'000 < 100 ? fmt::format("{}s", ms / 1'000)
                            : fmt::format("{}.{}s", ms / 1'000, ms % 1'000 / 100);
  auto const two = [](std::int64_t whole, char const* unit, std::int64_t part, char const* small) {
    return part == 0 ? fmt::format("{}{}", whole, unit) : fmt::format("{}{} {}{}", whole, unit, part, small);
  };
  auto const s = ms / 1'000;
  if (s < 3'600) return two(s / 60, "m", s % 60, "s");
  if (s < 86'400) return two(s / 3'600, "h", s % 3'600 / 60, "m");
  return two(s / 86'400, "d", s % 86'400 / 3'600, "h");
}

}  // namespace rowlock::tool
