#pragma once
// The toy strategies of tests/toys, by which the contract's cases prove what a further strategy costs.

#include <rowlock/types.hpp>

namespace rowlock::test {

constexpr auto toy_upsert = static_cast<strategy>(100);
constexpr auto toy_advisory = static_cast<strategy>(101);

}  // namespace rowlock::test
