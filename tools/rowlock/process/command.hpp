#pragma once

#include <sys/types.h>

#include <rowlock/types.hpp>
#include <string>
#include <vector>

#include "process/descriptor.hpp"
#include "process/message.hpp"
#include "process/signals.hpp"

namespace rowlock::tool {

/// What `exec_error` has for a command that did not begin because it was too late.
inline constexpr int too_late_to_begin = -1;

/// The command just after fork(): the errno of a failed exec, or too_late_to_begin, can be read from
/// `exec_error` as one int, nothing if it succeeded.
struct started_command {
  pid_t pid = 0;
  descriptor exec_error;
};

/// Runs the command as a child, in this process's group, with the terminal, files and signal handling that
/// this program was started with, and ROWLOCK_NAME, ROWLOCK_TOKEN and ROWLOCK_TERM. It dies with this
/// process. It does not begin at `begin_before` or later: whoever was stopped up to then may not have the
/// lock any more. Only for a process with one thread. @throws std::system_error if no process can be started
started_command start_command(std::vector<std::string> const& command, order const& lock,
                              boot_time_point begin_before, signal_setup const&);

}  // namespace rowlock::tool
