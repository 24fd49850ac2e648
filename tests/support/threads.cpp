#include "support/threads.hpp"

#include <fstream>
#include <string>

#include "support/eventually.hpp"

namespace rowlock::test {

bool comes_to_rest(std::atomic<int> const& thread) {
  return eventually([&] {
    if (thread == 0) return false;
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    if (!std::getline(file, line)) return true;
    auto const name_end = line.rfind(") ");  // a name may have any characters
    return name_end != line.npos && line.substr(name_end + 2, 1) == "S";
  });
}

}  // namespace rowlock::test
