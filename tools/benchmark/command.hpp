#pragma once
#include "systems/system.hpp"

namespace rowlock::bench {

/// Runs a program to its end, without its output. @throws std::exception if it can't be started or fails
void run_command(command_line const&);

}  // namespace rowlock::bench
