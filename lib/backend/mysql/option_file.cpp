#include "backend/mysql/option_file.hpp"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string_view>

#include "backend/mysql/small_file.hpp"

namespace rowlock::backend::mysql {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr auto blanks = " \t\r\n\v\f";
  auto const first = text.find_first_not_of(blanks);
  return first == text.npos ? std::string_view()
                            : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

std::string without_escapes(std::string_view text) {
  constexpr std::string_view escaped = "btnrs\\\"'";
  constexpr std::string_view meant = "\b\t\n\r \\\"'";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const which = text[i] == '\\' && i + 1 < text.size() ? escaped.find(text[i + 1]) : escaped.npos;
    if (which == escaped.npos) {
      out += text[i];
    } else {
      out += meant[which];
      ++i;
    }
  }
  return out;
}

/// The end of the quote that begins the text, or npos.
std::size_t end_of_quoted(std::string_view text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == text[0])
      return i;
  }
  return text.npos;
}

std::string option_value(std::string_view text) {
  if (text.starts_with('\'') || text.starts_with('"'))
    if (auto const end = end_of_quoted(text); end != text.npos)
      return without_escapes(text.substr(1, end - 1));
  return without_escapes(trimmed(text.substr(0, text.find('#'))));
}

std::string home() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets it meanwhile
  if (char const* set = std::getenv("HOME")) return set;
  passwd const* self = ::getpwuid(::geteuid());
  return self == nullptr ? "" : self->pw_dir;
}

}  // namespace

std::optional<std::string> password_in(std::istream& option_file) {
  std::optional<std::string> password;
  bool in_group = false;
  for (std::string text; std::getline(option_file, text);) {
    auto const line = trimmed(text);
    if (line.starts_with('[')) {
      auto const end = line.find(']');
      in_group = end != line.npos && trimmed(line.substr(1, end - 1)) == "client";
      continue;
    }
    auto const equals = line.find('=');
    if (in_group && equals != line.npos && trimmed(line.substr(0, equals)) == "password")
      password = option_value(trimmed(line.substr(equals + 1)));
  }
  return password;
}

std::optional<std::string> password_of_option_file() {
  auto const file = read_small_file(home() + "/.my.cnf");
  // A file that all users may write does not count, as in `mysql`.
  if (!file.why_not.empty() || (file.mode & S_IWOTH) != 0) return std::nullopt;
  std::istringstream in(file.text);
  return password_in(in);
}

}  // namespace rowlock::backend::mysql
