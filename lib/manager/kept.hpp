#pragma once
// What was read back after a lost reply: others may see it before the database keeps it.

#include <rowlock/types.hpp>
#include <span>

#include "manager/engine.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::managing {

/// Whether terms that were read in their rows are kept. A commit whose wait for a standby was ended, as by
/// the end of its session or of its server, can be read although no standby has it. A renewal names the
/// terms, and is a commit behind theirs that is waited for.
/// @return false if not all of them could be renewed: gone, revoked, at their hard limit, or locked by a
/// transaction
/// @throws error as a statement does: they are still in doubt
bool are_kept(engine&, backend::connection&, strategy, std::span<strategies::name_and_term const>);

}  // namespace rowlock::managing
