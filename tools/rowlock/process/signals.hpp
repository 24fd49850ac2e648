#pragma once

#include <signal.h>

#include "process/descriptor.hpp"

namespace rowlock::tool {

/// Ends this process as the signal would have, so that the shell sees it.
[[noreturn]] void die_by(int signal) noexcept;

/// The signals that rowlock passes on to its command: INT, TERM, HUP, QUIT, USR1 and USR2. The constructor
/// blocks them and SIGCHLD, for this thread and all that it starts; what was ignored (nohup) or blocked
/// already stays as it is.
class signal_setup {
 public:
  signal_setup();

  /// As this program was started: for the command, between fork and exec.
  void restore() const noexcept;
  /// A signalfd for what is passed on.
  descriptor open() const;

 private:
  sigset_t passed_on_{};
  sigset_t original_mask_{};
  struct sigaction original_child_ {};
};

}  // namespace rowlock::tool
