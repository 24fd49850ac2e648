#pragma once
#include <array>
#include <bit>
#include <cstdint>

namespace rowlock::bench {

/// How often something took how long, to within 2 %. Has no pointers: it lies in memory that processes share.
class histogram {
 public:
  void add(std::uint64_t ns) noexcept { ++counts_[index(ns)]; }
  void add(histogram const& other) noexcept {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  }
  /// The time that `part` (from 0 to 1) of all did not exceed; 0 if there is nothing.
  double nanoseconds(double part) const noexcept {
    std::uint64_t all = 0;
    for (auto const count : counts_) all += count;
    auto left = static_cast<std::uint64_t>(static_cast<double>(all) * part);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] > left) return middle(i);
      left -= counts_[i];
    }
    return 0;
  }

 private:
  static constexpr unsigned bits = 5;  ///< of a time that count, behind the leading one
  static constexpr std::size_t index(std::uint64_t ns) noexcept {
    if (ns < (1U << bits)) return ns;
    auto const shift = static_cast<unsigned>(std::bit_width(ns)) - bits - 1;
    auto const i = (static_cast<std::size_t>(shift + 1) << bits) + ((ns >> shift) & ((1U << bits) - 1));
    return i < size ? i : size - 1;
  }
  static constexpr double middle(std::size_t i) noexcept {
    if (i < (1U << bits)) return static_cast<double>(i);
    auto const shift = (i >> bits) - 1;
    auto const low = ((std::uint64_t{1} << bits) + (i & ((1U << bits) - 1))) << shift;
    return static_cast<double>(low) + static_cast<double>(std::uint64_t{1} << shift) / 2;
  }
  static constexpr std::size_t size = 40UL << bits;  ///< up to an hour and a half

  std::array<std::uint32_t, size> counts_{};
};

}  // namespace rowlock::bench
