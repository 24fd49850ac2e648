#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

#include "cli.hpp"
#include "commands/covering_lock.hpp"
#include "commands/run_options.hpp"
#include "database.hpp"
#include "members.hpp"
#include "process/guard.hpp"
#include "process/signals.hpp"

namespace rowlock::tool {

/// The life of the lock around one guarded command, or of several: taken, renewed, given back.
class session {
 public:
  session(database const&, run_options const&, mutex_options, signal_setup const&, guard&);
  /// Of a lock that these databases grant by majority.
  session(std::vector<database> const&, run_options const&, mutex_options, signal_setup const&, guard&);

  /// Waits for the lock. @return how the program is to end if it was not taken
  std::optional<end_of_program> take(invocation const&);
  /// Runs the command until it and its descendants are gone.
  outcome guard_command();
  /// Gives the lock back, or says why it was lost. @return how the program is to end if it was
  std::optional<end_of_program> give_back(outcome const&);

 private:
  void hear(event const&);
  /// Of a command that succeeded, if that is to be recorded, by the record.
  manager_options for_manager();
  release_result let_go(covering_lock&, outcome const&);
  release_result try_late(covering_lock const&, boot_time_point until);
  void lock_lost() noexcept;
  void trust_moved() noexcept;
  /// Of all of them; empty if they have no trust in the future.
  std::optional<boot_time_point> trusted_until() const noexcept;
  /// The first that was lost; empty if all are held.
  covering_lock const* lost() const noexcept;
  std::string why_lost(outcome const&) const;
  boot_time_point asked_at() const;
  bool at_hard_limit(covering_lock const&) const;
  [[noreturn]] void leave_to_expire(outcome const&) const;

  database const db_;  ///< of several the first
  run_options const& options_;
  mutex_options mutex_options_;
  guard& guard_;
  signal_setup const& signals_;
  descriptor signal_fd_;
  mutable std::mutex trouble_mutex_;
  std::string trouble_;                    ///< the latest error of the library's, for messages
  std::unique_ptr<lock_manager> manager_;  ///< of one database,
  std::unique_ptr<members> members_;       ///< or of several
  std::vector<covering_lock> locks_;
  std::atomic<bool> have_them_ = false;  ///< locks_ is there, and stays as it is
  boot_time_point asked_at_;
};

}  // namespace rowlock::tool
