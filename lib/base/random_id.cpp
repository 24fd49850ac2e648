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

// Up to this size getrandom(2) is not interrupted and never short, once the kernel has seeded its generator.
constexpr std::size_t most_bytes = 256;

void fill(std::span<std::uint64_t> bits) {
  constexpr auto most = most_bytes / sizeof(std::uint64_t);
  for (; !bits.empty(); bits = bits.subspan(std::min(bits.size(), most))) {
    auto const part = std::as_writable_bytes(bits.first(std::min(bits.size(), most)));
    if (::getrandom(part.data(), part.size(), 0) != static_cast<ssize_t>(part.size()))
      throw error(errc::failed, "the kernel gave no random bits (getrandom)");
  }
}

std::string id_of(std::uint64_t high, std::uint64_t low) { return fmt::format("{:016x}{:016x}", high, low); }

}  // namespace

std::string random_id() {
  std::array<std::uint64_t, 2> bits{};
  fill(bits);
  return id_of(bits[0], bits[1]);
}

std::vector<std::string> random_ids(std::size_t n) {
  std::vector<std::uint64_t> bits(2 * n);
  fill(bits);
  std::vector<std::string> all;
  all.reserve(n);
  for (std::size_t i = 0; i < n; ++i) all.push_back(id_of(bits[2 * i], bits[2 * i + 1]));
  return all;
}

}  // namespace rowlock::base
