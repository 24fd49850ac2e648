#pragma once

#include <functional>

#include "backend/backend.hpp"

namespace rowlock::strategies {

/// Runs `body` in a write transaction at READ COMMITTED; commits if it returns true, else rolls back. What
/// `body` throws is thrown on after the rollback, a lost reply as errc::unreachable: without a COMMIT nothing
/// was done. A lost reply to the COMMIT itself is errc::in_doubt.
void in_transaction(backend::connection&, backend::statement_book const&, boot_time_point deadline,
                    std::function<bool()> const& body);

}  // namespace rowlock::strategies
