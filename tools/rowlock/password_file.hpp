#pragma once

#include <string>

namespace rowlock::tool {

/// A name under which what is in the file can be read again for each connection: `path`, or if that is a pipe
/// (--password-file <(command)), which can be read once, a copy of its first line in this process's memory.
/// @throws failure(exit_usage) if no line comes out of the pipe within ten seconds
std::string readable_again(std::string const& path);

}  // namespace rowlock::tool
