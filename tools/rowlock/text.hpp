#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::tool {

/// For a terminal: control characters, and bytes that are not UTF-8, as \xNN, so that a name can't play
/// tricks.
std::string printable(std::string_view);

/// As a word for a POSIX shell, quoted if need be.
std::string shell_word(std::string_view);

/// "2026-11-20 10:00:00Z".
std::string utc(std::chrono::system_clock::time_point);
/// "2026-11-20T10:00:00.123Z".
std::string iso_utc(std::chrono::system_clock::time_point);

/// At most 100 characters of it, the last three of them dots if it is longer.
std::string shortened(std::string_view);

/// Columns padded to their widest cell, two blanks apart. The very first row is the heading, bold if `bold`.
/// A row of one cell is a line of its own. A table may come in parts: its columns become wider where a later
/// part needs that.
class columns {
 public:
  explicit columns(bool bold) noexcept : bold_(bold) {}
  std::string lines(std::vector<std::vector<std::string>> const& rows);

 private:
  std::vector<std::size_t> widths_;
  bool bold_;
};

/// The same in one part.
std::string table(std::vector<std::vector<std::string>> const& rows, bool bold);

/// Whether output to `fd` may have colours: a terminal, NO_COLOR not set (no-color.org), TERM not dumb.
bool may_colour(int fd);

}  // namespace rowlock::tool
