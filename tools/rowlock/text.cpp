#include "text.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/printable.hpp"

namespace rowlock::tool {
namespace {

/// Characters, for padding; wide ones count as one.
std::size_t width(std::string_view s) {
  return static_cast<std::size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text) { return base::printable(text); }

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  // zsh takes =ls for the path of ls.
  if (!text.empty() && text.front() != '=' && text.find_first_not_of(plain) == text.npos)
    return std::string(text);
  std::string out = "'";
  for (char const c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string utc(std::chrono::system_clock::time_point when) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(when)));
}

std::string iso_utc(std::chrono::system_clock::time_point when) {
  auto const seconds = std::chrono::floor<std::chrono::seconds>(when);
  auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(when - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03d}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), ms);
}

std::string shortened(std::string_view text) {
  constexpr std::size_t widest = 100;
  std::string out(text);
  if (width(out) <= widest) return out;
  while (width(out) > widest - 3) out.pop_back();
  return out + "...";
}

std::string columns::lines(std::vector<std::vector<std::string>> const& rows) {
  for (auto const& row : rows)
    for (std::size_t i = 0; row.size() > 1 && i < row.size(); ++i) {
      if (i == widths_.size()) widths_.push_back(0);
      widths_[i] = std::max(widths_[i], width(row[i]));
    }
  std::string out;
  for (auto const& row : rows) {
    if (row.size() == 1) {
      out += row[0] + '\n';
      continue;
    }
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      line.append(widths_[i] - width(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += std::exchange(bold_, false) ? fmt::format("\x1b[1m{}\x1b[0m\n", line) : line + '\n';
  }
  return out;
}

std::string table(std::vector<std::vector<std::string>> const& rows, bool bold) {
  return columns(bold).lines(rows);
}

bool may_colour(int fd) {
  char const* no = std::getenv("NO_COLOR");
  char const* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && (no == nullptr || *no == '\0') && term != nullptr &&
         std::string_view(term) != "dumb";
}

}  // namespace rowlock::tool
