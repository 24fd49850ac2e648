#include "base/boot_lead.hpp"

#include <atomic>
#include <cstdint>

namespace rowlock::base {
namespace {

std::atomic<std::int64_t> lead{0};
std::atomic<event const*> next{nullptr};  // never destroyed: whoever sleeps may look at a former one

}  // namespace

std::chrono::nanoseconds boot_lead() noexcept { return std::chrono::nanoseconds(lead.load()); }

event const* next_boot_lead() noexcept { return next.load(); }

void boot_clock_may_lead() {
  if (next.load() == nullptr) next.store(new event);
}

void boot_clock_leads_by(std::chrono::nanoseconds more) {
  auto const* const coming = new event;
  lead.fetch_add(more.count());
  if (auto const* const now = next.exchange(coming)) now->set();
}

}  // namespace rowlock::base
