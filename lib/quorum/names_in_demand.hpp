#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <rowlock/types.hpp>
#include <string>

namespace rowlock::voting {

/// The names for which this process met competitors lately. Names with the same slot count together.
/// Thread-safe.
class names_in_demand {
 public:
  void met(std::string const& name) noexcept { of(name) = boot_clock::now().time_since_epoch().count(); }
  bool lately(std::string const& name) const noexcept {
    auto const last = of(name).load();
    return last != 0 && boot_clock::now() - boot_time_point(boot_clock::duration(last)) < lately_means;
  }

 private:
  static constexpr std::chrono::seconds lately_means{5};
  using place = std::atomic<boot_clock::rep>;
  place& of(std::string const& name) const noexcept {
    return places_[std::hash<std::string>{}(name) % places_.size()];
  }
  mutable std::array<place, 256> places_{};
};

}  // namespace rowlock::voting
