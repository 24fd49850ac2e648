#pragma once

#include <optional>

#include "holding/hold.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::holding {

/// Reads the row of a term that could not be prolonged. @return the loss reason; empty if a transaction has
/// just locked the row
std::optional<loss_reason> loss_reason_of(strategies::term_tables const&, backend::connection&,
                                          grant_facts const&, boot_time_point deadline);

}  // namespace rowlock::holding
