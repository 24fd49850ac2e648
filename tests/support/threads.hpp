#pragma once

#include <atomic>

namespace rowlock::test {

/// Waits until the thread of this process that puts its number there (::gettid()) sleeps, as it does when it
/// has nothing to do but wait; or has ended. False after a generous time.
bool comes_to_rest(std::atomic<int> const& thread);

}  // namespace rowlock::test
