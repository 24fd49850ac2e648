#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/reaping.hpp>

#include <optional>
#include <stop_token>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Deletes rows of dead holders and unused names, to keep rowlock's tables small. Exclusion and progress
/// never need the reaper, and it frees no live lock.
///
/// A run deletes, by the database's clock:
/// - rows of unique_insert whose term is over, at once
/// - free or expired rows of lease, anchors of row_lock, permits, and rows of rowlock_tokens, unused for
///   reaper_options::idle. Tokens go on rising: the run raises rowlock_meta.token_floor first.
///
/// If the clock went back, terms of dead holders stay for as much longer. The reaper watches each term whose
/// expiry is further away than the term can have set it, and ends the term if no renewal comes.
///
/// The reaper leaves rows that another session has locked, terms with takeover::observed (no clock can end
/// them), and tokens far ahead of the clock.
///
/// Any number of runs may be started anywhere, at any time. A lease on the name "rowlock.reaper" lets one
/// work at a time, only for economy. Memory does not grow with the number of rows.
///
/// Exception safety: rows deleted before an error stay deleted. The object is as it was.
///
/// Thread safety: distinct objects are independent. One object is for one thread at a time.
class ROWLOCK_EXPORT reaper {
 public:
  /// @throws error(errc::invalid_argument) if an option is out of range or no plain identifier
  explicit reaper(connection_source, reaper_options = {});

  /// Goes through the tables once. Deadlocks and lost connections are ridden out for some seconds, locked
  /// files for a minute. @throws error
  reap_result run(std::stop_token stop = {});

  /// The last run, except dry and busy ones. Empty if there was none. @throws error
  std::optional<last_reap> last();

 private:
  connection_source source_;
  reaper_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
