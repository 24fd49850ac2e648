#pragma once
// For Prometheus: what the tables say, and what a run of the reaper did.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <rowlock/findings.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/quarantine.hpp>
#include <rowlock/reaper.hpp>
#include <string>

namespace rowlock::tool {

/// What `rowlock list --metrics` prints of the database.
struct database_state {
  std::optional<last_reap> reaped;
  std::optional<quarantine_state> grants;  ///< empty: none, or a server that takes no writes
  std::optional<old_snapshot> snapshot;
};

/// What `rowlock list --metrics` prints of locks, which come in parts.
class lock_counts {
 public:
  /// `idle_too`: they are among the locks.
  explicit lock_counts(bool idle_too);
  void add(lock_info const&);
  std::string metrics(database_state const&) const;

 private:
  std::map<std::string, std::map<std::string, std::int64_t>> count_;  ///< strategy, state
  std::map<std::string, double> oldest_;
};

/// A run of `rowlock reap`, as the host on which it ran sees it.
struct reap_run {
  reap_result done;  ///< up to the moment at which it failed
  int exit_status = 0;
  std::chrono::system_clock::time_point ended_at;
  std::chrono::duration<double> duration{0};
};

/// What `rowlock reap --metrics` writes. `last_success`: of earlier runs, in seconds since the epoch.
std::string metrics_of(reap_run const&, std::optional<double> last_success);

/// When a run succeeded last, as a file that replace_file() wrote has it; nothing if it has not.
std::optional<double> last_success_in(std::string const& path);

/// Replaces `path` by a file with that text in one step: a reader sees the former file or the new one.
/// @throws failure(exit_setup)
void replace_file(std::string const& path, std::string const& text);

}  // namespace rowlock::tool
