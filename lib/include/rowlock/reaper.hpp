#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/reaping.hpp>

#include <optional>
#include <stop_token>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Deletes rows that dead holders and unused names have left in rowlock's tables. The reaper keeps the tables
/// small. Exclusion and progress never need it, and it frees no live lock.
///
/// It deletes the following, always by the database's clock. Rows of unique_insert whose term is over go at
/// once. Free or expired rows of lease, anchors of row_lock, and rows of rowlock_tokens go when they were not
/// used for reaper_options::idle. Where the clock went back, the terms of dead holders would stay for as much
/// longer: if the expiry of a term is further away than the term can have set it, the reaper watches the term
/// and ends it if nobody renews it. Tokens go on rising: rowlock_meta.token_floor is raised first.
///
/// It leaves rows that somebody has locked just now, terms with takeover::observed (no clock can say that
/// they are over), and tokens that are far ahead of the clock.
///
/// May run anywhere, at any time, beside any number of others. A lease on the name "rowlock.reaper" lets one
/// run work at a time; that is only for economy. Memory does not grow with the number of rows.
///
/// Exception safety: what a run had deleted before it threw stays deleted. The object is as it was.
///
/// Thread safety: distinct objects are independent; one object is for one thread at a time.
class ROWLOCK_EXPORT reaper {
 public:
  /// @throws error(errc::invalid_argument) if an option is out of range or no plain identifier
  explicit reaper(connection_source, reaper_options = {});

  /// Goes through both tables once. Deadlocks and lost connections are ridden out for some seconds, locked
  /// files for a minute. @throws error
  reap_result run(std::stop_token stop = {});

  /// What the last run did that was not a dry run and not busy. Empty if there was none. @throws error
  std::optional<last_reap> last();

 private:
  connection_source source_;
  reaper_options options_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
