#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace rowlock::test {

/// The library that moves the wall clock of a program into which it is preloaded:
/// tests/servers/moved_clock.cpp.
std::string moved_clock_library();

/// Says in `file`, new or one that such a program has open, how far its clock is from the true time.
void move_clock(std::string const& file, std::chrono::seconds offset);

/// The beginning of a command line: the rest is a program with the clock that `file` says.
std::vector<std::string> with_moved_clock(std::string const& file);

}  // namespace rowlock::test
