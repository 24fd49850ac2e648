#include "holding/late_releases.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_set>

namespace rowlock::holding {
namespace {

constexpr std::chrono::milliseconds longest_late_pause{5'000};
// Each take on a database that fails all statements adds a take in doubt that can't be released either. They
// are counted per name only if there are many.
constexpr std::size_t few = 256;
constexpr std::ptrdiff_t most_of_a_name = 64;

}  // namespace

void late_release::lengthen_pause() noexcept {
  pause = std::clamp(2 * pause, first_late_pause, longest_late_pause);
}

void late_releases::add(late_release r) {
  // Terms that were held always count: all permits of a semaphore have one name.
  bool const too_many =
      r.doubtful() && all_.size() >= few && std::count_if(all_.begin(), all_.end(), [&](auto const& one) {
                                              return one.second.which.name == r.which.name;
                                            }) >= most_of_a_name;
  if (!too_many) all_.emplace_hint(all_.end(), ++number_, std::move(r));
}

// Releases are independent, because each names its term. But a take in doubt waits for the held terms of its
// name that came before it: an exchange of permits that no longer finds the previous one grants nothing.
template <class Look>
void late_releases::each_to_be_tried(Look const& look) const {
  std::unordered_set<std::string_view> held;
  for (auto const& [number, one] : all_) {
    if (!one.doubtful()) held.insert(one.which.name);
    if (!one.doubtful() || !held.contains(one.which.name)) look(number, one);
  }
}

std::vector<std::uint64_t> late_releases::due(boot_time_point now) const {
  std::vector<std::uint64_t> fresh;
  std::vector<std::uint64_t> again;
  if (now < not_before_) return fresh;
  each_to_be_tried([&](std::uint64_t number, late_release const& one) {
    if (one.next <= now || one.until <= now)
      (one.pause == std::chrono::milliseconds::zero() ? fresh : again).push_back(number);
  });
  fresh.insert(fresh.end(), again.begin(), again.end());
  return fresh;
}

boot_time_point late_releases::next() const {
  auto next = boot_time_point::max();
  each_to_be_tried(
      [&](std::uint64_t, late_release const& one) { next = std::min(next, std::min(one.next, one.until)); });
  return std::max(next, not_before_);
}

void late_releases::hurry() noexcept {
  not_before_ = {};
  for (auto& [number, one] : all_) one.next = {};
}

}  // namespace rowlock::holding
