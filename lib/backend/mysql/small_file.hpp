#pragma once
// Files that a user names or has, with a line or a few in them.

#include <sys/types.h>

#include <string>

namespace rowlock::backend::mysql {

struct small_file {
  std::string text;
  mode_t mode = 0;
  std::string why_not;  ///< it can't be read, for a message; empty if it was
};

/// A regular file of 1 MiB at most. Waits for no pipe, whoever has made one.
small_file read_small_file(std::string const& path);

}  // namespace rowlock::backend::mysql
