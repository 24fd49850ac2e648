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

/// Numbers of rows, by kind.
struct reap_counts {
  std::int64_t unique_insert = 0;  ///< locks whose term was over
  std::int64_t lease = 0;          ///< names unused for a while, of lease, once and quorum
  std::int64_t row_lock = 0;       ///< anchors unused for a while
  std::int64_t tokens = 0;         ///< latest tokens, older than that
  std::int64_t permits = 0;        ///< of shared_mutex and semaphore. Their terms ended so long ago
  std::int64_t permit_names = 0;   ///< names of such locks, unused for a while
  std::int64_t all() const noexcept {
    return unique_insert + lease + row_lock + tokens + permits + permit_names;
  }
};

/// Why a run ended.
enum class reap_end {
  finished,
  stopped,  ///< by the caller's stop_token, after the current batch
  lost,     ///< its own lease was lost (revoked, or an outage), after the current batch
  busy,     ///< another run was under way. Nothing was done
};
ROWLOCK_EXPORT char const* to_string(reap_end) noexcept;

/// The result of a run.
struct reap_result {
  reap_end end = reap_end::finished;
  bool dry_run = false;
  reap_counts deleted;        ///< in a dry run: rows that a run would have deleted
  std::int64_t examined = 0;  ///< rows read
  std::int64_t skipped = 0;   ///< due when read, then locked, renewed or taken
  std::int64_t ended = 0;     ///< terms of dead holders, kept by a clock that went back. The run ended them
  /// Terms that only a watcher may end. They are takeover::observed and expired by the clock, or kept by a
  /// clock that went back, and longer than reaper_options::watch.
  std::int64_t left_observed = 0;
  std::int64_t left_ahead = 0;  ///< tokens more than a day ahead of the clock, which was wrong once
  std::int64_t batches = 0;
  std::int64_t token_floor = 0;  ///< at the end of the run
  std::chrono::milliseconds idle{0};
  std::chrono::milliseconds duration{0};
  std::optional<holder_info> holder{};  ///< busy: the owner of the other run
};

/// The result as a JSON object, with durations in milliseconds, as rowlock_reaper stores it.
ROWLOCK_EXPORT std::string to_json(reap_result const&);

/// The last run, from rowlock_reaper.
struct last_reap {
  std::chrono::system_clock::time_point started_at;  ///< by the database's clock
  std::chrono::system_clock::time_point finished_at;
  std::string host;
  std::int64_t pid = 0;
  std::string report;  ///< as from to_json(); other versions may write more or less
};

/// The options of a run.
struct reaper_options {
  std::string table_prefix = "rowlock_";
  std::string schema{};  ///< as manager_options::schema
  /// How long a name must be unused before its rows are deleted; up to 100 years.
  std::chrono::milliseconds idle{std::chrono::hours{24}};
  int batch = 1000;      ///< rows read, and at most deleted, in one transaction. 1 to 100,000
  bool dry_run = false;  ///< count only: changes nothing, and needs no lease
  /// How much longer a run may last to watch terms that a clock that went back keeps; up to an hour.
  std::chrono::milliseconds watch{600'000};
  std::chrono::milliseconds wait{10'000};           ///< for another run to end
  std::chrono::milliseconds reply_timeout{30'000};  ///< of the database's
  /// Called after each batch, by the thread that called run(); may be empty. Exceptions end the run and are
  /// passed on.
  std::function<void(reap_result const&)> progress{};
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
