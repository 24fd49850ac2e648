#include "base/glob.hpp"

#include <fnmatch.h>
#include <locale.h>

#include <cstddef>

namespace rowlock::base {
namespace {

/// The bytes after which a LIKE pattern ends with '%', because databases have limits.
constexpr std::size_t longest_like = 600;

locale_t bytewise() noexcept {
  static locale_t const c = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return c;
}

bool is_plain(char c) noexcept {
  return c > ' ' && c <= '~' && c != '*' && c != '?' && c != '[' && c != '\\';
}

}  // namespace

bool glob::matches(std::string const& name) const noexcept {
  if (pattern_.empty()) return true;
  auto const before = ::uselocale(bytewise());
  bool const found = ::fnmatch(pattern_.c_str(), name.c_str(), 0) == 0;
  ::uselocale(before);
  return found;
}

// A bracket or backslash, and the text behind it, becomes '%': only fnmatch() knows its meaning.
std::string glob::like() const {
  if (pattern_.empty()) return "%";
  std::string out;
  for (char const c : pattern_) {
    if (c == '[' || c == '\\' || out.size() > longest_like) {
      out += '%';
      break;
    }
    if (is_plain(c)) {
      if (c == '%' || c == '_' || c == '|') out += '|';
      out += c;
    } else if (!out.ends_with('%') || out.ends_with("|%")) {
      out += '%';
    }
  }
  return out;
}

std::string glob::prefix() const {
  std::size_t length = 0;
  while (length < pattern_.size() && is_plain(pattern_[length])) ++length;
  return pattern_.substr(0, length);
}

}  // namespace rowlock::base
