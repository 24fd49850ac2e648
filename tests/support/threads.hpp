#pragma once

#include <atomic>
#include <map>
#include <string>

namespace rowlock::test {

/// Waits until the thread of this process that puts its number there (::gettid()) sleeps, as it does when it
/// has nothing to do but wait; or has ended. False after a generous time.
bool comes_to_rest(std::atomic<int> const& thread);

/// The other threads of this process by their numbers (::gettid()), with their names; without a sanitizer's.
std::map<std::string, std::string> other_threads();

/// How often the other threads of this process went to sleep by themselves, all in all.
long times_slept_by_others();
/// Waits until they all sleep. Who was woken before does not, until it has gone to sleep again. False after a
/// generous time.
bool others_come_to_rest();

}  // namespace rowlock::test
