#pragma once
// Header-only, because the command line uses it, too.

#include <optional>
#include <string_view>

namespace rowlock::base {

/// Advice where the kind of error gives wrong advice (server away, reply lost). Empty if the message says it;
/// nullopt for others.
inline std::optional<char const*> way_out_of(std::string_view message) noexcept {
  auto const says = [message](std::string_view part) { return message.find(part) != message.npos; };
  if (says("reply was longer than any that is expected"))
    return "Is it the right server, and which program writes long texts into rowlock's tables there?";
  if (says("certificate is not accepted")) return "";
  return std::nullopt;
}

}  // namespace rowlock::base
