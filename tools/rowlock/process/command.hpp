#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "process/descriptor.hpp"
#include "process/message.hpp"
#include "process/signals.hpp"

namespace rowlock::tool {

/// The command just after fork(): the errno of a failed exec can be read from `exec_error` as one int,
/// nothing if it succeeded.
struct started_command {
  pid_t pid = 0;
  descriptor exec_error;
};

/// Runs the command as a child, in this process's group, with the terminal, files and signal handling that
/// this program was started with, and ROWLOCK_NAME, ROWLOCK_TOKEN and ROWLOCK_TERM. It dies with this
/// process. Only for a process with one thread. @throws std::system_error if no process can be started
started_command start_command(std::vector<std::string> const& command, order const& lock,
                              signal_setup const&);

}  // namespace rowlock::tool
