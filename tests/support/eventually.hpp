#pragma once

#include <chrono>
#include <functional>

namespace rowlock::test {

/// Waits until `condition` holds, for a state that nothing announces: asks again and again. False after a
/// generous time.
bool eventually(std::function<bool()> const& condition,
                std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace rowlock::test
