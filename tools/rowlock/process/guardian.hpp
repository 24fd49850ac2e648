#pragma once
// The guardian's own side: a process that does nothing but end the command in time. See guard.hpp for how it
// is used.

#include <rowlock/types.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "process/boot_timer.hpp"
#include "process/command.hpp"
#include "process/descriptor.hpp"
#include "process/message.hpp"
#include "process/signals.hpp"
#include "process/tree.hpp"

namespace rowlock::tool {

struct guard_plan {
  std::vector<std::string> command;
  boot_clock::duration grace{};    ///< between SIGTERM and SIGKILL
  boot_clock::duration slack{};    ///< SIGKILL is sent this long before trust ends
  std::string name{};              ///< of the lock, for those who look at ps
  std::span<char> command_line{};  ///< main()'s words as they lie in memory: the guardian puts its own there
};

/// Why a process of its own: it is there when rowlock is killed or stopped. It has one thread and no database
/// connection; all signals are blocked in it; once it has begun to end the command, no renewal makes it stop.
class guardian {
 public:
  guardian(guard_plan, signal_setup const&, descriptor rowlock);
  /// Until the command and all its descendants are gone, or rowlock is before there was a command.
  void run();

 private:
  void wait();
  void read_orders();
  void obey(order const&);
  void start_in_time();
  void start(order const&);
  void not_begun(ending why);
  void leave_terminal(std::vector<int> const& files);
  void read_exec_error();
  void look_at_children();
  void look_at_clock();
  void begin_end(ending why, boot_time_point kill_by);
  void finish(int left);
  boot_time_point next_event() const noexcept;
  boot_time_point end_begins() const noexcept;

  guard_plan plan_;
  signal_setup const& signals_;
  descriptor rowlock_;
  descriptor child_ended_;
  boot_timer timer_;
  std::optional<order> to_start_;  ///< until all orders that came in with it are read
  std::vector<int> for_command_;   ///< signals that came in meanwhile
  bool lost_ = false;              ///< before there was a command
  pid_t command_ = 0;
  descriptor exec_error_;
  reaper children_;
  boot_time_point trust_ends_ = never;
  bool ending_ = false;
  boot_time_point kill_at_ = never;
  report report_;
  bool finished_ = false;
};

}  // namespace rowlock::tool
