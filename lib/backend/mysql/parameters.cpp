#include "backend/mysql/parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>

#include "base/text.hpp"

namespace rowlock::backend::mysql {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The end of the quoted part or comment at `at`; else `at`.
std::size_t end_of_opaque(std::string_view sql, std::size_t at) {
  auto const behind = [&](std::string_view closing, std::size_t from) {
    auto const found = sql.find(closing, from);
    return found == sql.npos ? sql.size() : found + closing.size();
  };
  char const c = sql[at];
  if (c == '\'' || c == '"' || c == '`') {
    for (auto i = at + 1; i < sql.size(); ++i) {
      if (sql[i] == '\\' && c != '`')
        ++i;
      else if (sql[i] == c)
        return i + 1;  // a doubled one begins another part
    }
    return sql.size();
  }
  if (c == '#') return behind("\n", at);
  if (sql.substr(at, 2) == "--" && (at + 2 == sql.size() || sql[at + 2] == ' ' || sql[at + 2] == '\n'))
    return behind("\n", at);
  if (sql.substr(at, 2) == "/*") return behind("*/", at + 2);
  return at;
}

/// Passes on the text in pieces, and the parameters' numbers (from 0) between.
template <class Text, class Parameter>
void walk(std::string_view sql, Text const& text, Parameter const& parameter) {
  std::size_t begun = 0;
  for (std::size_t at = 0; at < sql.size();) {
    if (auto const end = end_of_opaque(sql, at); end != at) {
      at = end;
    } else if (sql[at] == '$' && at + 1 < sql.size() && is_digit(sql[at + 1])) {
      text(sql.substr(begun, at - begun));
      std::size_t number = 0;
      for (++at; at < sql.size() && is_digit(sql[at]); ++at)
        number = number * 10 + static_cast<std::size_t>(sql[at] - '0');
      parameter(number - 1);
      begun = at;
    } else {
      ++at;
    }
  }
  text(sql.substr(begun));
}

}  // namespace

marked_text mark_parameters(std::string_view sql) {
  marked_text out;
  walk(
      sql, [&](std::string_view piece) { out.sql += piece; },
      [&](std::size_t which) {
        out.sql += '?';
        out.order.push_back(which);
        out.highest = std::max(out.highest, which + 1);
      });
  return out;
}

std::string with_literals(std::string_view sql, std::span<value const> values) {
  std::string out;
  walk(
      sql, [&](std::string_view piece) { out += piece; },
      [&](std::size_t which) {
        auto const& v = values[which];
        if (auto const* number = std::get_if<std::int64_t>(&v))
          out += fmt::to_string(*number);
        else if (auto const* t = std::get_if<std::string>(&v))
          out += fmt::format("X'{}'", base::hexadecimal(*t));
        else
          out += "NULL";
      });
  return out;
}

void check_parameters(marked_text const& text, std::span<value const> values, std::string const& name) {
  if (values.size() < text.highest)
    throw error(errc::failed,
                fmt::format("{}: {} parameters instead of {}", name, values.size(), text.highest), name, "",
                0);
  for (auto const& v : values)
    if (auto const* t = std::get_if<std::string>(&v); t != nullptr && t->find('\0') != std::string::npos)
      throw error(errc::invalid_argument, fmt::format("{}: text must not contain U+0000", name), name, "", 0);
}

}  // namespace rowlock::backend::mysql
