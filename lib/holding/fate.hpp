#pragma once

#include <optional>

#include "holding/hold.hpp"
#include "strategy/term_rows.hpp"

namespace rowlock::holding {

/// What the row of a term says that could not be prolonged. Neither: it is held as before, and the row was
/// only locked by somebody's transaction.
struct fate {
  std::optional<loss_reason> lost{};
  /// The record can be read that this hold, or a transaction of the program's, has made. Before anybody is
  /// told that the work is done: keep_record().
  bool done = false;
};

fate fate_of(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);

/// Whether its record can be read.
bool is_recorded(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);
/// Whether it ended by its record, which the database keeps: see term_rows::keep_record().
bool keep_record(strategies::term_tables const&, backend::connection&, hold&, boot_time_point deadline);

}  // namespace rowlock::holding
