#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::tool {

/// Text for the columns of a terminal, as wide as wcwidth(3) has it in the locale that is set (LC_CTYPE).
/// Made harmless as by printable(); a character that the locale doesn't know is a '?', and one that would be
/// invisible is shown as its bytes.
/// @return the columns that it takes
std::size_t cells(std::string_view);

/// Exactly `width` columns of it: padded with blanks, or cut, with a '~' at its end.
std::string fitted(std::string_view, std::size_t width);

/// All of it, in lines of at most `width` columns. At least one line.
std::vector<std::string> wrapped(std::string_view, std::size_t width);

/// Without blanks at the end.
std::string trimmed(std::string);

}  // namespace rowlock::tool
