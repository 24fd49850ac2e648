#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace rowlock::torture {

/// For a terminal or a picture: whatever is not a letter, digit or sign of ASCII as \xNN. A server's text, by
/// SOCI, may have anything in it. Line ends become blanks: one message is one line.
inline std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char const c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\t')
      out += ' ';
    else if (byte < 0x20 || byte > 0x7e)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += c;
  }
  return out;
}

/// On stderr, if somebody can read it: a terminal may be gone, or a pipe, and there is still to be tidied up.
inline void on_stderr(std::string const& text) noexcept { std::fputs(text.c_str(), stderr); }

}  // namespace rowlock::torture
