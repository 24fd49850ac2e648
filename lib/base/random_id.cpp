#include "base/random_id.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <cstdint>
#include <rowlock/error.hpp>

namespace rowlock::base {

std::string random_id() {
  std::uint64_t bits[2];
  // Not interrupted and never short for up to 256 bytes once the generator is seeded, which it is long before
  // us.
  if (::getrandom(bits, sizeof bits, 0) != sizeof bits)
    throw error(errc::failed, "the kernel gave no random bits (getrandom)");
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

}  // namespace rowlock::base
