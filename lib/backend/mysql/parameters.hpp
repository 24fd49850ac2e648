#pragma once
// From $1, $2, ... in the .sql files to question marks.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::backend::mysql {

struct marked_text {
  std::string sql;                 ///< with a ? for each $n
  std::vector<std::size_t> order;  ///< the parameter of each ?, from 0
  std::size_t highest = 0;         ///< how many are needed
};

/// Leaves text in quotes, backticks or comments as it is.
marked_text mark_parameters(std::string_view sql);

/// The text with its values, where nothing may be prepared. Text becomes X'...': the same bytes for every
/// character set and sql_mode. Precondition: check_parameters().
std::string with_literals(std::string_view sql, std::span<value const>);

/// `name`: the statement's.
/// @throws error(errc::failed) for too few values, errc::invalid_argument for U+0000
void check_parameters(marked_text const&, std::span<value const>, std::string const& name);

}  // namespace rowlock::backend::mysql
