#pragma once

#include <csignal>
#include <string>
#include <vector>

#include "process/signals.hpp"

namespace rowlock::tool {

/// Starts this program once more in the same process, with the same words: a guardian can only be forked
/// where there is one thread and no connection.
class fresh_start {
 public:
  /// Notes the files that are open: first of all. @throws std::system_error
  fresh_start();

  /// The program begins anew, with this variable in its environment. What was opened since is closed, signals
  /// are as they were. @throws std::system_error if it can't be started
  [[noreturn]] void now(std::vector<std::string> words, signal_setup const&, std::string const& variable,
                        std::string const& value) const;

 private:
  std::vector<int> handed_off_;
  struct sigaction pipe_ {};  ///< SIGPIPE, which rowlock ignores
};

}  // namespace rowlock::tool
