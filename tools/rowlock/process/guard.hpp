#pragma once

#include <rowlock/types.hpp>

#include <atomic>
#include <string>

#include "process/boot_timer.hpp"
#include "process/guardian.hpp"
#include "process/message.hpp"

namespace rowlock::tool {

/// How the guarded command ended.
struct outcome {
  enum class source {
    guardian,       ///< `what` is what the guardian reported
    guardian_gone,  ///< the guardian was killed; the command and its descendants were ended here instead
    guardian_late,  ///< the guardian did nothing (frozen, held by a debugger) while trust ended; the same
  };
  source from = source::guardian;
  report what;
  /// SIGINT, SIGTERM, SIGHUP or SIGQUIT, the last that came in meanwhile from outside the command; or 0.
  int asked_to_end = 0;

  /// Whether the command ended by itself, and with this exit status.
  bool exited_with(int status) const noexcept;
};

/// rowlock's side of the guardian: forks it, tells it how long the lock may be trusted, and waits for its
/// report.
///
///     main ──fork──> guardian ──fork──> command ──> its descendants, wherever they go
///       └── orders ─────┘ └── is their subreaper; ends them all before trust ends, or when main is gone
class guard {
 public:
  /// Must be called while the process has one thread and no database connection. @throws std::system_error,
  /// system_refusal
  guard(guard_plan, signal_setup const&);
  /// Ends what runs, if the report was not waited for.
  ~guard();
  guard(guard const&) = delete;
  guard& operator=(guard const&) = delete;

  /// An errno where the system has no child subreapers (an emulator, a sandbox): a process of the command's
  /// that has lost its parent is then neither waited for nor ended. Else 0.
  int why_no_orphans() const noexcept { return why_no_orphans_; }

  /// Runs the command, the lock being held until `trust_ends` at least; or does not, if end() was called
  /// before, or if it is too late for it by then: wait() tells. `token`, `term` and, unless it is empty,
  /// `database` are for its environment.
  void start(std::string const& name, fencing_token token, std::string const& term,
             boot_time_point trust_ends, std::string const& database = {});
  /// Trust goes on until then. Any thread.
  void renewed(boot_time_point trust_ends) noexcept;
  /// The lock is lost: the command must be gone by `kill_by`, sooner if trust ends or its grace is over. Any
  /// thread.
  void end(boot_time_point kill_by) noexcept;

  /// Waits until the command and all its descendants are gone. Passes on to it the signals that come in by
  /// `signals` (of signal_setup::open()) and did not reach it anyway; has a guardian that was stopped go on.
  outcome wait(int signals);

 private:
  void send(order const&) noexcept;
  void pass_on(int signals);
  void pass_on_one(int signal) noexcept;
  outcome watch(int signals);
  void wake_guardian() noexcept;
  bool guardian_ends_within(boot_clock::duration) noexcept;
  void end_guardian() noexcept;
  boot_time_point overdue() const noexcept;
  void set_timer() noexcept;
  outcome end_all(outcome::source);

  boot_clock::duration slack_;
  boot_clock::duration grace_;
  descriptor child_changed_;  ///< a signalfd
  descriptor guardian_;
  pid_t guardian_pid_ = -1;
  std::atomic<std::int64_t> trust_ends_;
  std::atomic<std::int64_t> end_by_;  ///< after end()
  boot_timer overdue_;                ///< the guardian should have reported by then
  int why_no_orphans_ = 0;
  bool started_ = false;
  bool too_late_ = false;
  bool done_ = false;
  int asked_to_end_ = 0;
};

}  // namespace rowlock::tool
