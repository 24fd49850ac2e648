#pragma once
// For tests only: moves this process's boot clock forward, as if the machine had slept. So a test ends a term
// without waiting. Other programs pay one atomic read.

#include <chrono>

#include "base/event.hpp"

namespace rowlock::base {

/// The lead of boot_clock over CLOCK_BOOTTIME.
std::chrono::nanoseconds boot_lead() noexcept;

/// The event that the next move sets; null before boot_clock_may_lead(). Callers read it before boot_lead().
event const* next_boot_lead() noexcept;

/// Lets a move wake the threads that sleep by the clock. Call it before they start.
void boot_clock_may_lead();
/// Moves the clock forward by `more`, which is positive. Current deadlines pass, too. Thread-safe.
void boot_clock_leads_by(std::chrono::nanoseconds more);

}  // namespace rowlock::base
