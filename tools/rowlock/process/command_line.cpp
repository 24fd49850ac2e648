#include "process/command_line.hpp"

#include <algorithm>
#include <cstring>

namespace rowlock::tool {

std::span<char> memory_of(int argc, char** argv) noexcept {
  if (argc < 1) return {};
  char* end = argv[0];
  for (int i = 0; i < argc; ++i) {
    if (argv[i] != end) return {};
    end += std::strlen(end) + 1;
  }
  return {argv[0], end};
}

// The last byte stays 0: else the kernel would go on reading in what lies behind, the environment.
void write_over(std::span<char> command_line, std::string_view text) noexcept {
  if (command_line.empty()) return;
  std::fill(command_line.begin(), command_line.end(), '\0');
  std::copy_n(text.begin(), std::min(text.size(), command_line.size() - 1), command_line.begin());
}

}  // namespace rowlock::tool
