#pragma once

#include <optional>

#include "holding/hold.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::holding {

/// What the row of a term says that could not be prolonged. Neither: it is held as before, and the row was
/// only locked by somebody's transaction.
struct fate {
  std::optional<loss_reason> lost{};
  bool done = false;  ///< it ended by the record that this hold, or a transaction of the program's, has made
};

fate fate_of(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);

/// Whether it ended by its record.
bool is_recorded(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);

}  // namespace rowlock::holding
