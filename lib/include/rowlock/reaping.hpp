#pragma once
// The options and results of a run of the reaper: <rowlock/reaper.hpp>.

#include <rowlock/export.hpp>
#include <rowlock/types.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Numbers of rows, one for each kind.
struct reap_counts {
  std::int64_t unique_insert = 0;  ///< locks whose term was over
  std::int64_t lease = 0;          ///< names that nobody has used for a while, of lease, once and quorum
  std::int64_t row_lock = 0;       ///< anchors that nobody has used for a while
  std::int64_t tokens = 0;         ///< latest tokens that are older than that
  std::int64_t permits = 0;        ///< of shared_mutex and semaphore, whose term was over for so long
  std::int64_t permit_names = 0;   ///< names of such locks that nobody has used for a while
  std::int64_t all() const noexcept {
    return unique_insert + lease + row_lock + tokens + permits + permit_names;
  }
};

enum class reap_end {
  finished,  ///< went through everything
  stopped,   ///< by the caller's stop_token, after the current batch
  lost,      ///< its own lease was lost (an operator took it away, or an outage), after the current batch
  busy,      ///< another run was under way; nothing was done
};
ROWLOCK_EXPORT char const* to_string(reap_end) noexcept;

/// The result of a run.
struct reap_result {
  reap_end end = reap_end::finished;
  bool dry_run = false;
  reap_counts deleted;        ///< in a dry run: what a run at that moment would have deleted
  std::int64_t examined = 0;  ///< rows that were looked at
  std::int64_t skipped = 0;   ///< due when looked at, then locked by somebody, renewed or taken
  std::int64_t ended = 0;     ///< dead holders' terms, kept by a clock that went back, which the run ended
  /// Terms that only watching may end: takeover::observed and expired by the clock; or kept by a clock that
  /// went back, and longer than reaper_options::watch.
  std::int64_t left_observed = 0;
  std::int64_t left_ahead = 0;  ///< tokens more than a day ahead of the clock, which was wrong once
  std::int64_t batches = 0;
  std::int64_t token_floor = 0;  ///< as it was at the end
  std::chrono::milliseconds idle{0};
  std::chrono::milliseconds duration{0};
  std::optional<holder_info> holder{};  ///< busy: whose run was under way
};

/// The result as a JSON object, with durations in milliseconds: what rowlock_reaper keeps of a run.
ROWLOCK_EXPORT std::string to_json(reap_result const&);

/// What rowlock_reaper says of the last run.
struct last_reap {
  std::chrono::system_clock::time_point started_at;  ///< by the database's clock
  std::chrono::system_clock::time_point finished_at;
  std::string host;
  std::int64_t pid = 0;
  std::string report;  ///< the run's result, as to_json() writes it; other versions may say more or less
};

/// Each member has an initializer, so that {.batch = 100} causes no warning.
struct reaper_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};  ///< of rowlock's tables; empty: what the search path says
  /// How long a name must be unused before what is remembered of it is deleted; up to 100 years.
  std::chrono::milliseconds idle{std::chrono::hours{24}};
  int batch = 1000;      ///< rows that are looked at, and at most deleted, in one transaction; 1 to 100,000
  bool dry_run = false;  ///< count only; changes nothing, and needs no lease
  /// How much longer a run may last to see that nobody renews what a clock that went back keeps; up to an
  /// hour.
  std::chrono::milliseconds watch{600'000};
  std::chrono::milliseconds wait{10'000};           ///< for another run to end
  std::chrono::milliseconds reply_timeout{30'000};  ///< of the database's
  /// Called after each batch, by the thread that called run(); may be empty. What it throws ends
  /// the run and is passed on.
  std::function<void(reap_result const&)> progress{};
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
