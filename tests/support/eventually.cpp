#include "support/eventually.hpp"

#include <algorithm>
#include <thread>

namespace rowlock::test {
namespace {

constexpr std::chrono::milliseconds longest_pause(32);

}  // namespace

bool eventually(std::function<bool()> const& condition, std::chrono::milliseconds patience) {
  auto const until = std::chrono::steady_clock::now() + patience;
  // The one place where tests poll. A condition is often a statement: asked all the time, it would take the
  // processors from those that are waited for.
  for (std::chrono::milliseconds pause(1); !condition(); pause = std::min(2 * pause, longest_pause)) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

}  // namespace rowlock::test
