#include "base/random_id.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <rowlock/error.hpp>
#include <span>

namespace rowlock::base {
namespace {

struct id_bits {
  std::uint64_t high;
  std::uint64_t low;
};

// Up to 256 bytes getrandom(2) is not interrupted and never short, once the kernel has seeded its generator.
constexpr std::size_t most_at_once = 256 / sizeof(id_bits);

void fill(std::span<id_bits> bits) {
  if (::getrandom(bits.data(), bits.size_bytes(), 0) != static_cast<ssize_t>(bits.size_bytes()))
    throw error(errc::failed, "the kernel gave no random bits (getrandom)");
}

std::string id_of(id_bits const& from) {
  std::string id(32, '0');
  fmt::format_to(id.begin(), "{:016x}{:016x}", from.high, from.low);
  return id;
}

}  // namespace

std::string random_id() {
  std::array<id_bits, 1> bits{};
  fill(bits);
  return id_of(bits[0]);
}

std::vector<std::string> random_ids(std::size_t n) {
  std::array<id_bits, most_at_once> bits{};
  std::vector<std::string> all;
  all.reserve(n);
  while (all.size() < n) {
    auto const some = std::span(bits).first(std::min(n - all.size(), bits.size()));
    fill(some);
    for (auto const& one : some) all.push_back(id_of(one));
  }
  return all;
}

}  // namespace rowlock::base
