#pragma once

#include <span>
#include <string_view>

namespace rowlock::tool {

/// Where main()'s words lie in memory, one behind the other, as the kernel put them there; nothing if
/// somebody has moved them.
std::span<char> memory_of(int argc, char** argv) noexcept;

/// Has ps show `text` as this process's command line, as much of it as there is room for.
void write_over(std::span<char> command_line, std::string_view text) noexcept;

}  // namespace rowlock::tool
