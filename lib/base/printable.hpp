#pragma once
// Makes foreign text safe to show. Header-only, because the command line uses it, too.

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace rowlock::base {

/// Length in bytes of the first UTF-8 sequence. 0: invalid, a control character, or a mark that turns the
/// direction of writing.
inline std::size_t harmless_prefix(std::string_view s) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  auto const lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  std::size_t const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || s.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates, and code points beyond U+10FFFF.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)) return 0;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return 0;
  if (lead == 0xc2 && byte(1) < 0xa0) return 0;  // U+0080 to U+009F: control characters, too
  // U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069 turn the direction of writing.
  if (lead == 0xd8 && byte(1) == 0x9c) return 0;
  if (lead == 0xe2 && byte(1) == 0x80 &&
      (byte(2) == 0x8e || byte(2) == 0x8f || (byte(2) >= 0xa8 && byte(2) <= 0xae)))
    return 0;
  if (lead == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9) return 0;
  return size;
}

/// The text, with "\\x1b" and the like for each byte outside harmless sequences.
inline std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    auto const size = harmless_prefix(text);
    if (size == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
    } else {
      out += text.substr(0, size);
      text.remove_prefix(size);
    }
  }
  return out;
}

}  // namespace rowlock::base
