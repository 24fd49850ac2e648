#pragma once
// Numbers of a reply that are added up, and must not overflow.

#include <fmt/format.h>

#include <cstdint>
#include <rowlock/error.hpp>

#include "backend/backend.hpp"

namespace rowlock::strategies {

/// @throws error(errc::failed) unless it is from 0 to `most`. Hundreds of numbers below the default can be
/// added.
inline std::int64_t as_count(backend::value const& v, std::int64_t most = std::int64_t{1} << 53) {
  auto const n = backend::as_int(v);
  if (n >= 0 && n <= most) return n;
  throw error(errc::failed, fmt::format("the database returned {} where a count was expected", n));
}

}  // namespace rowlock::strategies
