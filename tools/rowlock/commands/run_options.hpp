#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <rowlock/options.hpp>
#include <string>
#include <vector>

#include "commands/taking.hpp"
#include "process/guard.hpp"

namespace rowlock::tool {

/// The options of `rowlock run`, as they were given.
struct run_options {
  std::string name;
  std::vector<std::string> others;  ///< taken together with it
  waiting_options waiting;
  share_options share;
  std::optional<std::chrono::milliseconds> grace;
  std::optional<std::chrono::milliseconds> ttl;
  std::optional<std::chrono::milliseconds> at_least;
  std::optional<std::chrono::milliseconds> hard_limit;
  std::string strategy_name;
  std::string note;
  /// Of `once`: for how long it is recorded that the command was done.
  std::optional<std::chrono::milliseconds> record_for;
  /// Of `once`: the exit status by which the command says that its work is whole, also if it was told to
  /// stop.
  std::optional<int> done_status;
  bool of_majority = false;  ///< of several databases
  /// Called when the lock is held, before the command runs; may be empty.
  std::function<void(fencing_token)> on_grant{};

  /// The name, and the others.
  std::vector<std::string> names() const;
  /// @throws failure(exit_usage)
  mutex_options for_mutex() const;
  /// Between SIGTERM and SIGKILL. Without --grace a sixth of the ttl, or of the hard limit if that is
  /// shorter, 5 s at most.
  std::chrono::milliseconds time_to_end() const;
  /// How the guardian is to end the command.
  /// @throws failure(exit_usage) if a renewal that comes in time would come too late for it
  guard_plan for_guard(std::vector<std::string> command) const;
  /// Of `once`: whether the work is done. A command that was told to stop often ends with 0 halfway.
  bool is_done(outcome const&) const noexcept;

 private:
  std::chrono::milliseconds lasts() const;
  /// The ttl, or the hard limit if that is shorter.
  std::chrono::milliseconds longest_term() const;
};

}  // namespace rowlock::tool
