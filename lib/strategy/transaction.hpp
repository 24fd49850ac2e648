#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::strategies {

/// Runs `body` in a write transaction at READ COMMITTED; commits if it returns true, else rolls back. What
/// `body` throws is thrown on after the rollback, a lost reply as errc::unreachable: without a COMMIT nothing
/// was done. A lost reply to the COMMIT itself is errc::in_doubt.
void in_transaction(backend::connection&, backend::statement_book const&, boot_time_point deadline,
                    std::function<bool()> const& body);

/// Several statements in a transaction of their own, in one round trip where the database takes them at once.
/// @return what each gave
std::vector<backend::result> run_together(backend::connection&, backend::statement_book const&,
                                          std::span<backend::step const>, boot_time_point deadline);

}  // namespace rowlock::strategies
