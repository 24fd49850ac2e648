#pragma once
// All processes below one, wherever they went: another group, another session, a daemon. Works for a process
// that is a child subreaper (prctl(2)): what loses its parent becomes its child, so that the chain upwards
// never breaks.

#include <rowlock/types.hpp>

#include <sys/types.h>

#include <optional>
#include <vector>

namespace rowlock::tool {

/// One process for certain: pids are reused, pid and start time together are not.
struct process_id {
  pid_t pid = 0;
  unsigned long long started = 0;  ///< clock ticks since boot
  bool operator==(process_id const&) const = default;
  bool operator<(process_id const& o) const noexcept {
    return pid != o.pid ? pid < o.pid : started < o.started;
  }
};

struct process_entry {
  process_id id;
  pid_t parent = 0;
  bool dead = false;  ///< only waits to be reaped
};

std::optional<process_entry> read_process(pid_t);

/// Makes this process a child subreaper. @return false if the system knows no such thing (an emulator, a
/// sandbox): errno says why. What loses its parent is then lost from sight, and ends where it likes.
bool adopt_orphans(bool wanted = true) noexcept;

/// What /proc shows below `root` just now. A process that is forked or loses its parent while /proc is read
/// may be missed, and so are those that /proc hides: go on until waitpid() says ECHILD, which is exact for a
/// subreaper.
std::vector<process_entry> descendants_of(pid_t root);

bool is_descendant(pid_t, pid_t root);

enum class signal_result { sent, gone, refused };

/// Sends to that process and to no later one with its pid.
signal_result send_signal(process_id, int signal) noexcept;

/// Reaps whatever children of this process have ended.
class reaper {
 public:
  /// `command`: the child whose status is wanted, or 0.
  explicit reaper(pid_t command = 0) noexcept : command_(command) {}
  /// @return false once there is no child left: for a subreaper, no descendant.
  bool reap() noexcept;
  /// SIGKILL for the command, unless it was reaped: by its id alone, whatever /proc shows.
  void kill_command() const noexcept;
  std::optional<int> const& status() const noexcept { return status_; }

 private:
  pid_t command_;
  std::optional<int> status_;
};

/// SIGKILLs all descendants of this process, a subreaper in which SIGCHLD is blocked, and reaps them. They
/// are stopped first, all of them, so that none can fork faster than it is killed.
/// @return how many were left when it gave up, as far as they can be counted: at once if those left may not
/// be signalled (another user's), at `give_up` if they are stuck in the kernel or not shown by /proc.
int kill_descendants(reaper&, boot_time_point give_up);

}  // namespace rowlock::tool
