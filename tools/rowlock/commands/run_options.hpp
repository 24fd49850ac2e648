#pragma once

#include <chrono>
#include <optional>
#include <rowlock/options.hpp>
#include <string>

#include "exit_status.hpp"
#include "process/guardian.hpp"

namespace rowlock::tool {

/// The options of `rowlock run`, as they were given.
struct run_options {
  std::string name;
  std::optional<std::chrono::milliseconds> wait;
  bool no_wait = false;
  std::optional<std::chrono::milliseconds> grace;
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::milliseconds> at_least;
  std::optional<std::chrono::milliseconds> hard_limit;
  int conflict_status = exit_busy;  ///< instead of it
  std::string strategy_name;
  std::string note;

  /// @throws failure(exit_usage)
  mutex_options for_mutex() const;
  /// How the guardian is to end the command. Without --grace a sixth of the ttl, or of the hard limit if that
  /// is shorter, 5 s at most.
  /// @throws failure(exit_usage) if a renewal that comes in time would come too late for it
  guard_plan for_guard(std::vector<std::string> command) const;
};

}  // namespace rowlock::tool
