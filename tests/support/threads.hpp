#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace rowlock::test {

/// Waits until the thread of this process that puts its number there (::gettid()) sleeps, as it does when it
/// has nothing to do but wait; or has ended. False after a generous time.
bool comes_to_rest(std::atomic<int> const& thread);

/// The names of the other threads of this process, in order, without a sanitizer's.
std::vector<std::string> names_of_other_threads();

/// How often the other threads of this process went to sleep by themselves, all in all.
long times_slept_by_others();
/// Waits until they all sleep. Who was woken before does not, until it has gone to sleep again. False after a
/// generous time.
bool others_come_to_rest();

}  // namespace rowlock::test
