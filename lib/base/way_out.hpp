#pragma once
// Only inline, because the command line uses it, too.

#include <optional>
#include <string_view>

namespace rowlock::base {

/// What to do about an error where the kind of error alone would give the wrong advice: that the server is
/// away, or that a reply was lost. Empty if the message says it.
inline std::optional<char const*> way_out_of(std::string_view message) noexcept {
  auto const says = [message](std::string_view part) { return message.find(part) != message.npos; };
  if (says("reply was longer than any that is expected"))
    return "Is it the right server, and which program writes long texts into rowlock's tables there?";
  if (says("certificate is not accepted")) return "";
  return std::nullopt;
}

}  // namespace rowlock::base
