#include "support/eventually.hpp"

#include <thread>

namespace rowlock::test {

bool eventually(std::function<bool()> const& condition, std::chrono::milliseconds patience) {
  auto const until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the one place where tests poll
  }
  return true;
}

}  // namespace rowlock::test
