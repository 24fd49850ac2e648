#include "process/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

#include "process/descriptor.hpp"

namespace rowlock::tool {
namespace {

/// After this many rounds of stopping that still found new processes, kill what was found all the same.
constexpr int stop_rounds = 50;
/// A killed process needs a moment to be gone; look again at the latest after this long.
constexpr timespec pause{0, 5'000'000};

/// None if /proc can't be read: who has to end them has to go on with what he knows.
std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  if (!proc) return pids;
  while (dirent const* entry = ::readdir(proc.get()))
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9')
      pids.push_back(static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10)));
  return pids;
}

/// Stops all until a round finds no new one: a stopped process forks no more, and a fork that was under way
/// when the signal came fails in the kernel and is tried again after SIGCONT, which never comes.
void stop_descendants() {
  std::set<process_id> stopped;
  for (int round = 0; round < stop_rounds; ++round) {
    bool fresh = false;
    for (auto const& p : descendants_of(::getpid()))
      if (!p.dead && stopped.insert(p.id).second) fresh |= send_signal(p.id, SIGSTOP) == signal_result::sent;
    if (!fresh) return;
  }
}

struct kill_count {
  int living = 0;
  int refused = 0;
};

kill_count kill_once() {
  kill_count count;
  for (auto const& p : descendants_of(::getpid())) {
    if (p.dead) continue;
    ++count.living;
    if (send_signal(p.id, SIGKILL) == signal_result::refused) ++count.refused;
  }
  return count;
}

void wait_for_child() noexcept {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigtimedwait(&child, nullptr, &pause);
}

}  // namespace

bool adopt_orphans(bool wanted) noexcept { return ::prctl(PR_SET_CHILD_SUBREAPER, wanted ? 1 : 0) == 0; }

std::optional<process_entry> read_process(pid_t pid) {
  descriptor const file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 1024> text{};
  auto const size = ::read(file.get(), text.data(), text.size() - 1);
  if (size <= 0) return std::nullopt;
  // pid (name) state ppid ...: the name may contain anything, also blanks and parentheses.
  char const* after_name = std::strrchr(text.data(), ')');
  if (after_name == nullptr) return std::nullopt;
  char state = 0;
  int parent = 0;
  long threads = 0;
  unsigned long long started = 0;
  int const read = std::sscanf(
      after_name + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu",
      &state, &parent, &threads, &started);
  if (read != 4) return std::nullopt;
  // A process whose first thread has ended is shown as a zombie although its other threads run.
  bool const dead = (state == 'Z' || state == 'X') && threads <= 1;
  return process_entry{{pid, started}, parent, dead};
}

std::vector<process_entry> descendants_of(pid_t root) {
  std::unordered_multimap<pid_t, process_entry> by_parent;
  for (pid_t const pid : all_pids())
    if (auto const p = read_process(pid)) by_parent.emplace(p->parent, *p);
  std::vector<process_entry> found;
  std::vector<pid_t> to_visit{root};
  while (!to_visit.empty()) {
    auto const [first, last] = by_parent.equal_range(to_visit.back());
    to_visit.pop_back();
    for (auto i = first; i != last; ++i) {
      found.push_back(i->second);
      to_visit.push_back(i->second.id.pid);
    }
    by_parent.erase(first, last);  // each parent once: pids reused while /proc was read could make a circle
  }
  return found;
}

bool is_descendant(pid_t pid, pid_t root) {
  for (int depth = 0; pid > 0 && depth < 1000; ++depth) {
    if (pid == root) return true;
    auto const p = read_process(pid);
    if (!p) return false;
    pid = p->parent;
  }
  return false;
}

signal_result send_signal(process_id id, int signal) noexcept {
  descriptor const pidfd(static_cast<int>(::syscall(SYS_pidfd_open, id.pid, 0)));
  if (!pidfd && errno == ESRCH) return signal_result::gone;
  // The descriptor is of the process that had the pid when it was opened: the one that is meant, if it has it
  // still.
  auto const now = read_process(id.pid);
  if (!now || now->id != id) return signal_result::gone;
  // Without pidfd (a sandbox may forbid it), kill(2) leaves only the moment since the look above.
  long const sent =
      pidfd ? ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) : ::kill(id.pid, signal);
  if (sent == 0) return signal_result::sent;
  return errno == EPERM ? signal_result::refused : signal_result::gone;
}

bool reaper::reap() noexcept {
  for (;;) {
    int status = 0;
    pid_t const pid = ::waitpid(-1, &status, WNOHANG);
    if (pid == 0) return true;
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) return false;
    if (pid == command_) status_ = status;
  }
}

void reaper::kill_command() const noexcept {
  if (command_ > 0 && !status_) ::kill(command_, SIGKILL);
}

int kill_descendants(reaper& children, boot_time_point give_up) {
  int only_refused = 0;
  while (children.reap()) {
    stop_descendants();
    auto const count = kill_once();
    children.kill_command();
    only_refused = count.living > 0 && count.refused == count.living ? only_refused + 1 : 0;
    // Twice in a row: what was killed a moment ago may not yet have handed its own children up to us.
    if (only_refused > 2) return count.living;
    // Also those that /proc does not show: another user's where it is mounted with hidepid, or all if it is
    // gone.
    if (boot_clock::now() > give_up && children.reap()) return std::max(count.living, 1);
    if (children.reap()) wait_for_child();
  }
  return 0;
}

}  // namespace rowlock::tool
