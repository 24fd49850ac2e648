#pragma once
// For tests: the boot clock of this process goes ahead, as if the machine had slept. So a term ends because a
// test says so, and not because it waited. Nothing else uses this; what it costs is one atomic that is read.

#include <chrono>

#include "base/event.hpp"

namespace rowlock::base {

/// How far boot_clock is ahead of CLOCK_BOOTTIME.
std::chrono::nanoseconds boot_lead() noexcept;

/// Is set when the clock goes ahead the next time; null as long as no test has said that it may. To be read
/// before boot_lead() is.
event const* next_boot_lead() noexcept;

/// From now on whoever sleeps by the clock wakes when it goes ahead: said before there is such a thread.
void boot_clock_may_lead();
/// By so much more, which is positive. Deadlines of what is asked just then pass, too. Thread-safe.
void boot_clock_leads_by(std::chrono::nanoseconds more);

}  // namespace rowlock::base
