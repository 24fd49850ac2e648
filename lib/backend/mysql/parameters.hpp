#pragma once
// From $1, $2, ... in the .sql files to the question marks that the server understands.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::mysql {

struct marked_text {
  std::string sql;                 ///< with a ? for each $n
  std::vector<std::size_t> order;  ///< which parameter each ? stands for, from 0
  std::size_t highest = 0;         ///< so many parameters are needed
};

/// Text in quotes, backticks or comments is not changed.
marked_text mark_parameters(std::string_view sql);

/// The text with the values in it, for where nothing may be prepared: text as X'...', which means the same
/// bytes whatever the session's character set and sql_mode are. To be checked before.
std::string with_literals(std::string_view sql, std::span<value const>);

/// @throws error if there are too few values, or one that a server can't be trusted with. `name` is the
/// statement's
void check_parameters(marked_text const&, std::span<value const>, std::string const& name);

}  // namespace rowlock::backend::mysql
