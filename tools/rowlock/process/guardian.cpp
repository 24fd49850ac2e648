#include "process/guardian.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "process/command_line.hpp"

namespace rowlock::tool {
namespace {

/// How long processes that do not die of SIGKILL (stuck in the kernel) are waited for.
constexpr std::chrono::seconds patience{2};

boot_time_point time_of(std::int64_t ns) noexcept { return boot_time_point{boot_clock::duration{ns}}; }

/// All signals: none may end or stop the guardian, and one that writes to a terminal from the background with
/// SIGTTOU blocked is let through.
descriptor block_all_but_children() {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  descriptor fd(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) throw std::system_error(errno, std::generic_category(), "signalfd");
  return fd;
}

std::vector<int> files_now() {
  std::vector<int> open;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    open.push_back(std::atoi(entry.path().filename().c_str()));
  return open;
}

void drop_files(std::vector<int> const& files, std::initializer_list<int> keep) {
  for (int const fd : files)
    if (fd > STDERR_FILENO && std::find(keep.begin(), keep.end(), fd) == keep.end()) ::close(fd);
  descriptor const null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(null.get(), STDOUT_FILENO);
}

}  // namespace

guardian::guardian(guard_plan plan, signal_setup const& signals, descriptor rowlock)
    : plan_(std::move(plan)),
      signals_(signals),
      rowlock_(std::move(rowlock)),
      child_ended_(block_all_but_children()) {
  // Not "rowlock", and not the words of `rowlock run`: so that `killall rowlock` and `pkill -f 'rowlock run'`
  // meet the one that may be killed.
  ::prctl(PR_SET_NAME, "lock-guardian");
  write_over(plan_.command_line, "rowlock-guardian " + plan_.name);
  (void)adopt_orphans();  // if not, rowlock has said so
}

void guardian::run() {
  while (!finished_) {
    wait();
    read_orders();
    if (to_start_ && !finished_) start_in_time();
    if (exec_error_) read_exec_error();
    if (command_ != 0) look_at_children();
    if (!finished_) look_at_clock();
  }
}

void guardian::wait() {
  timer_.set(next_event());
  std::array<pollfd, 4> fds{{{rowlock_.get(), POLLIN, 0},
                             {child_ended_.get(), POLLIN, 0},
                             {timer_.get(), POLLIN, 0},
                             {exec_error_.get(), POLLIN, 0}}};
  ::poll(fds.data(), fds.size(), -1);
  signalfd_siginfo ignored{};
  while (::read(child_ended_.get(), &ignored, sizeof ignored) > 0) {
  }
}

void guardian::read_orders() {
  while (rowlock_) {
    order o;
    auto const size = ::recv(rowlock_.get(), &o, sizeof o, MSG_DONTWAIT);
    if (size == sizeof o) {
      obey(o);
    } else if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
      return;
    } else {
      rowlock_.reset();
      if (command_ == 0) {
        finished_ = true;
      } else {
        begin_end(ending::rowlock_gone, never);
      }
    }
  }
}

void guardian::obey(order const& o) {
  switch (o.kind) {
    case order_kind::start:
      trust_ends_ = time_of(o.trust_ends);
      to_start_ = o;
      return;
    case order_kind::renew:
      trust_ends_ = std::max(trust_ends_, time_of(o.trust_ends));
      return;
    case order_kind::end:
      if (command_ != 0) return begin_end(ending::lost, time_of(o.trust_ends));
      lost_ = true;
      return;
    case order_kind::signal:
      if (to_start_) return for_command_.push_back(o.signal);
      // Not reaped yet, so the pid is still the command's.
      if (command_ > 0 && !children_.status()) ::kill(command_, o.signal);
      return;
  }
}

/// If one of us was stopped since the lock was taken, it may be too late: a command that would be ended at
/// once does not begin. Renewals that came in meanwhile were read before.
void guardian::start_in_time() {
  auto const o = *std::exchange(to_start_, std::nullopt);
  if (lost_) return not_begun(ending::lost);
  if (boot_clock::now() >= end_begins()) return not_begun(ending::trust_ends);
  start(o);
  for (int const signal : std::exchange(for_command_, {}))
    if (command_ > 0) ::kill(command_, signal);
}

void guardian::not_begun(ending why) {
  report_.not_begun = 1;
  report_.why = why;
  finish(0);
}

void guardian::start(order const& o) {
  // Before the command is there: what it does to /proc does not matter then.
  auto const files = files_now();
  started_command started;
  try {
    started = start_command(plan_.command, o, end_begins(), signals_);
  } catch (std::system_error const& e) {
    report_.exec_error = e.code().value();
    return finish(0);
  }
  command_ = started.pid;
  children_ = reaper(command_);
  exec_error_ = std::move(started.exec_error);
  leave_terminal(files);
}

/// The command has our group, the terminal's foreground; we go, so that no Ctrl-Z or kill of the group stops
/// us. Into a session of our own and not only a group: as the command's parent from another group of the same
/// session we would be what keeps the caller's group from being orphaned, and the kernel would send SIGHUP to
/// all of it when the command ends while anything in it is stopped (setpgid(2), "orphaned process group").
void guardian::leave_terminal(std::vector<int> const& files) {
  ::setsid();
  drop_files(files, {rowlock_.get(), child_ended_.get(), timer_.get(), exec_error_.get()});
}

void guardian::read_exec_error() {
  pollfd ready{exec_error_.get(), POLLIN, 0};
  if (::poll(&ready, 1, 0) != 1) return;
  int error = 0;
  bool const failed = ::read(exec_error_.get(), &error, sizeof error) == sizeof error;
  exec_error_.reset();
  if (!failed) return;
  if (error != too_late_to_begin) {
    report_.exec_error = error;
    return;
  }
  report_.not_begun = 1;
  if (!ending_) report_.why = ending::trust_ends;
}

void guardian::look_at_children() {
  bool const any_left = children_.reap();
  if (children_.status()) report_.wait_status = *children_.status();
  if (children_.status() && exec_error_) read_exec_error();
  if (!any_left) return finish(0);
  if (children_.status() && !ending_) begin_end(ending::by_itself, never);
}

void guardian::look_at_clock() {
  if (command_ == 0 || boot_clock::now() < next_event()) return;
  if (!ending_) return begin_end(ending::trust_ends, never);
  auto const give_up = boot_clock::now() + patience;
  int const left = kill_descendants(children_, give_up);
  if (children_.status()) report_.wait_status = *children_.status();
  finish(left);
}

boot_time_point guardian::next_event() const noexcept {
  if (command_ == 0) return never;
  return ending_ ? kill_at_ : end_begins();
}

/// When the command has to be told to end, unless a renewal comes.
boot_time_point guardian::end_begins() const noexcept {
  return earlier(trust_ends_, plan_.slack + plan_.grace);
}

void guardian::begin_end(ending why, boot_time_point kill_by) {
  auto const now = boot_clock::now();
  kill_by = std::min({kill_by, earlier(trust_ends_, plan_.slack), now + plan_.grace});
  if (ending_) {
    kill_at_ = std::min(kill_at_, kill_by);
    return;
  }
  ending_ = true;
  report_.why = why;
  kill_at_ = kill_by;
  bool command_seen = false;
  for (auto const& p : descendants_of(::getpid())) {
    command_seen |= p.id.pid == command_;
    if (p.dead) continue;
    if (p.id.pid != command_) ++report_.ended;
    if (kill_at_ <= now) continue;
    send_signal(p.id, SIGTERM);
    send_signal(p.id, SIGCONT);  // a stopped one would not see it
  }
  if (command_seen || command_ <= 0 || children_.status() || kill_at_ <= now) return;
  ::kill(command_, SIGTERM);  // /proc does not show it: its id is still its own, as it was not reaped
  ::kill(command_, SIGCONT);
}

void guardian::finish(int left) {
  finished_ = true;
  report_.left = left;
  if (rowlock_) ::send(rowlock_.get(), &report_, sizeof report_, MSG_NOSIGNAL);
}

}  // namespace rowlock::tool
