#pragma once
#include <optional>

#include "run.hpp"

namespace rowlock::bench {

/// The command line.
struct options {
  run_options run;
  std::vector<std::pair<std::string, std::string>> settings;  ///< of the servers, from the file of --places
  bool list = false;
  bool anyway = false;
  bool json = false;
  std::string plots{};  ///< the folder; empty: none
  int cycles = 0;       ///< for strace: so many of `system`, and nothing else
  std::string system{};
};

/// @return the status to end with, if there is nothing more to do
std::optional<int> parse(int argc, char** argv, options&);

}  // namespace rowlock::bench
