#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/reaping.hpp>

#include <optional>
#include <stop_token>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Deletes what the dead and the forgotten have left in rowlock's tables. Exclusion and progress never need
/// it, and it frees no live lock; it keeps the tables small.
///
/// What goes, always by the database's clock: rows of unique_insert whose term is over, at once; free or
/// expired rows of lease, anchors of row_lock, and rows of rowlock_tokens, that were not used for
/// reaper_options::idle. Where the clock went back, the terms of dead holders would stay for as much longer:
/// a term whose expiry is further away than it can have set it is watched, and ended if nobody renews it.
/// Tokens go on rising: rowlock_meta.token_floor is raised first. What stays: rows that somebody has locked
/// just now, terms with takeover::observed (no clock can say that they are over), and tokens that are far
/// ahead of the clock.
///
/// May run anywhere, at any time, beside any number of others: one run at a time, by a lease on the name
/// "rowlock.reaper", is only for economy. Memory does not grow with the number of rows. Not thread-safe
/// itself.
class ROWLOCK_EXPORT reaper {
 public:
  /// @throws error(errc::invalid_argument) if an option is out of range or no plain identifier
  explicit reaper(connection_source, reaper_options = {});

  /// Goes through both tables once. Deadlocks, locked files and lost connections are ridden out for some
  /// seconds, locked files for a minute.
  /// @throws error
  reap_result run(std::stop_token stop = {});

  /// What the last run did that was no dry one and not busy; nothing if there was none. @throws error
  std::optional<last_reap> last();

 private:
  connection_source source_;
  reaper_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
