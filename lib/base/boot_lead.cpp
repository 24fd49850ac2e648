#include "base/boot_lead.hpp"

#include <atomic>
#include <cstdint>
#include <forward_list>
#include <mutex>

namespace rowlock::base {
namespace {

std::atomic<std::int64_t> nanoseconds_ahead{0};
std::atomic<event const*> next{nullptr};

/// Never destroyed: a sleeping thread can look at a former event.
event const* another() {
  static std::mutex one_at_a_time;
  static auto& all = *new std::forward_list<event>;
  std::lock_guard const guard(one_at_a_time);
  return &all.emplace_front();
}

}  // namespace

std::chrono::nanoseconds boot_lead() noexcept { return std::chrono::nanoseconds(nanoseconds_ahead.load()); }

event const* next_boot_lead() noexcept { return next.load(); }

void boot_clock_may_lead() {
  if (next.load() == nullptr) next.store(another());
}

void boot_clock_leads_by(std::chrono::nanoseconds more) {
  auto const* const coming = another();
  nanoseconds_ahead.fetch_add(more.count());
  if (auto const* const now = next.exchange(coming)) now->set();
}

}  // namespace rowlock::base
