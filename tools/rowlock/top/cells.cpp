#include "top/cells.hpp"

#include <fmt/format.h>
#include <wchar.h>

#include "base/printable.hpp"

namespace rowlock::tool {
namespace {

/// A character with the marks that combine with it, or a byte that is shown as \xNN.
struct glyph {
  std::string bytes;
  std::size_t width = 0;
};

char32_t code_point(std::string_view sequence) {
  auto const lead = static_cast<unsigned char>(sequence[0]);
  char32_t c = sequence.size() == 1 ? lead : lead & (0xffU >> (sequence.size() + 1));
  for (char const next : sequence.substr(1)) c = c << 6 | (static_cast<unsigned char>(next) & 0x3f);
  return c;
}

/// Joiners, variation selectors and tags: terminals disagree about the width of what they join.
bool invisible(char32_t c) {
  return (c >= 0x200b && c <= 0x200f) || (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) ||
         c == 0xad || c == 0x34f || c == 0x180e || c == 0xfeff || c >= 0xe0000;
}

/// Takes the next one off the text.
glyph next(std::string_view& text) {
  auto const size = base::harmless_prefix(text);
  if (auto const c = size == 0 ? 0 : code_point(text.substr(0, size)); size > 0 && !invisible(c)) {
    auto const width = ::wcwidth(static_cast<wchar_t>(c));
    if (width != 0) {
      glyph g{width < 0 ? "?" : std::string(text.substr(0, size)),
              width < 0 ? 1 : static_cast<std::size_t>(width)};
      text.remove_prefix(size);
      return g;
    }
  }
  glyph g{fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0])), 4};
  text.remove_prefix(1);
  return g;
}

glyph next_with_marks(std::string_view& text) {
  constexpr int most_marks = 4;  // of a cell of curses; one more would begin another cell
  auto g = next(text);
  bool const takes_marks = g.bytes[0] != '\\' && g.bytes != "?" && g.bytes != " ";
  for (int marks = 0; takes_marks && !text.empty(); ++marks) {
    auto const size = base::harmless_prefix(text);
    if (size == 0) break;
    auto const c = code_point(text.substr(0, size));
    if (invisible(c) || ::wcwidth(static_cast<wchar_t>(c)) != 0) break;
    if (marks < most_marks) g.bytes += text.substr(0, size);
    text.remove_prefix(size);
  }
  return g;
}

}  // namespace

std::size_t cells(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) width += next_with_marks(text).width;
  return width;
}

std::string fitted(std::string_view text, std::size_t width) {
  std::string out;
  std::string all_but_one;  // as much of it as leaves a column for the '~'
  std::size_t used = 0;
  std::size_t used_then = 0;
  while (!text.empty()) {
    auto const g = next_with_marks(text);
    if (used + g.width > width) {
      if (width == 0) return {};
      return all_but_one + '~' + std::string(width - 1 - used_then, ' ');
    }
    out += g.bytes;
    used += g.width;
    if (used < width) {
      all_but_one = out;
      used_then = used;
    }
  }
  return out + std::string(width - used, ' ');
}

std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  while (!text.empty()) {
    auto const g = next_with_marks(text);
    if (used > 0 && used + g.width > width) {
      lines.emplace_back();
      used = 0;
    }
    lines.back() += g.bytes;
    used += g.width;
  }
  return lines;
}

std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace rowlock::tool
