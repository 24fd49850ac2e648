#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backend/backend.hpp"

namespace rowlock::strategies {

/// Runs `body` in a write transaction at READ COMMITTED. Commits if it returns true, else rolls back. An
/// exception of `body` is rethrown after the rollback; a lost reply becomes errc::unreachable, because
/// nothing was committed. If the reply to the COMMIT is lost, throws errc::in_doubt.
/// `durable`: the commit must survive a crash of the database's machine.
void in_transaction(backend::connection&, backend::statement_book const&, boot_time_point deadline,
                    std::function<bool()> const& body, bool durable = true);

/// Runs the statements in a transaction of their own, in one round trip where possible. @return their
/// results
std::vector<backend::result> run_together(backend::connection&, backend::statement_book const&,
                                          std::span<backend::step const>, boot_time_point deadline,
                                          bool durable = true);

}  // namespace rowlock::strategies
