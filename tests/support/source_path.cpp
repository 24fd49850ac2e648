#include "support/source_path.hpp"

namespace rowlock::test {

std::string source_path(std::string_view file) {
  std::string path = ROWLOCK_SOURCE_DIR;
  if (!file.empty()) path.append("/").append(file);
  return path;
}

}  // namespace rowlock::test
