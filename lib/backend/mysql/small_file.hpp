#pragma once

#include <sys/types.h>

#include <string>

namespace rowlock::backend::mysql {

struct small_file {
  std::string text;
  mode_t mode = 0;
  std::string why_not;  ///< empty if it was read
};

/// A regular file of 1 MiB at most. Never waits for a pipe.
small_file read_small_file(std::string const& path);

}  // namespace rowlock::backend::mysql
