#pragma once
// What the commands have in common that run another command while they hold a lock.

#include <rowlock/types.hpp>

#include "cli.hpp"
#include "commands/run_options.hpp"
#include "process/signals.hpp"

namespace rowlock::tool {

struct ran_under_lock {
  enum class how {
    not_taken,  ///< it did not get the lock
    not_run,    ///< the command could not be executed
    lost,       ///< it lost the lock, and ended the command
    ended,      ///< the command ended by itself, or was ended by a signal
  };
  how ended = how::not_taken;
  end_of_program status{};    ///< as the program is to end; the reason was printed
  bool asked_to_end = false;  ///< by a signal while the command ran
  boot_clock::duration ran_for{0};
};

/// Takes the lock, runs the command of the invocation until it and all its descendants are gone, and gives
/// the lock back. Only for a process that has one thread and no connection.
/// @throws failure, error
ran_under_lock run_under_lock(invocation&, run_options const&, signal_setup const&);

}  // namespace rowlock::tool
