#pragma once
// A client that is lied to: through a driver, from a server of its own on loopback.

#include <functional>
#include <memory>
#include <span>

#include "backend/backend.hpp"
#include "fuzz/lie.hpp"
#include "hostile/fake_server.hpp"

namespace rowlock::fuzz {

/// Logs in, and asks what the first byte chooses ('a' is the first call); the others are a lie. `talk` is the
/// server's part, `source` the way to its port. What is asked ends, by a rowlock::error or without.
void lie_to(std::span<std::uint8_t const> input, lie::framing, std::function<void(test::peer&)> const& talk,
            std::function<std::shared_ptr<backend::source>(int port)> const& source);

}  // namespace rowlock::fuzz
