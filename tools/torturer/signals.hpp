#pragma once
// Ctrl-C and the other signals that end a program: they end a run in order, so that what is broken is mended
// and nothing is left behind.

#include <sys/types.h>

#include <chrono>
#include <string>

namespace rowlock::torture {

/// From now on SIGINT, SIGTERM and SIGHUP are only noted, unless they were ignored before. One that comes
/// twice ends this process at once.
void note_signals();  // and output that nobody reads ends nothing
bool signal_came() noexcept;
/// @throws std::runtime_error if one came
void look_for_signal();
/// Ends this process by the signal that came, if one did.
void end_by_signal() noexcept;

/// Passes some time, or less if a signal comes.
void pass(std::chrono::milliseconds);

/// For a process that was just forked. It ends when its parent does, however that ends, and not before by
/// what a terminal or an operator sends to the whole group. What any of its threads throws and nobody catches
/// is said in one line.
/// @param who for that line
void be_child_of(pid_t parent, std::string const& who);

/// Runs a command by the shell; a terminal's Ctrl-C and its end are not for it. @return its status, as
/// waitpid() has it
int run_command(std::string const& command);

/// "with status 1", "by signal 9 (Killed)".
std::string how_it_ended(int status);

}  // namespace rowlock::torture
