#pragma once
// From $1, $2, ... in the .sql files to the question marks that the server understands.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::backend::mysql {

struct marked_text {
  std::string sql;                 ///< with a ? for each $n
  std::vector<std::size_t> order;  ///< which parameter each ? stands for, from 0
  std::size_t highest = 0;         ///< so many parameters are needed
};

/// What stands in quotes, backticks or comments is left alone.
marked_text mark_parameters(std::string_view sql);

}  // namespace rowlock::backend::mysql
