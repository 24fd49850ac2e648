#pragma once

#include <optional>

#include "holding/hold.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::holding {

/// Why the row of a term could not be prolonged. Neither: the lock is still held, and a transaction has
/// locked the row.
struct outcome {
  std::optional<loss_reason> lost{};
  /// The row has this hold's record. Call keep_record() before the program learns that the work is done.
  bool done = false;
};

outcome outcome_of(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);

bool is_recorded(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);
/// Whether the row has its record, durably: see term_rows::keep_record().
bool keep_record(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);

}  // namespace rowlock::holding
