#include "quiet.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace rowlock::bench {
namespace {

struct process_line {
  std::string name;
  pid_t parent = 0;
  double own = 0;       ///< seconds
  double children = 0;  ///< of those that have ended
};

double const tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));

/// Empty if it can't be read: a process can end between open and read, and an iterator would throw then.
std::string whole(std::string const& path) {
  std::ifstream const in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// False if there is no such process any more.
bool read_stat(pid_t pid, process_line& p) {
  auto const text = whole(fmt::format("/proc/{}/stat", pid));
  auto const open = text.find('(');
  auto const close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  p.name = text.substr(open + 1, close - open - 1);
  std::istringstream in(text.substr(close + 2));
  std::string skipped;
  in >> skipped >> p.parent;
  for (int i = 0; i < 9; ++i) in >> skipped;
  double user = 0;
  double system = 0;
  double children_user = 0;
  double children_system = 0;
  in >> user >> system >> children_user >> children_system;
  p.own = (user + system) * tick;
  p.children = (children_user + children_system) * tick;
  return static_cast<bool>(in);
}

std::map<pid_t, process_line> all_processes() {
  std::map<pid_t, process_line> all;
  for (auto const& entry : std::filesystem::directory_iterator("/proc")) {
    auto const name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    auto const pid = static_cast<pid_t>(std::stol(name));
    if (process_line p; read_stat(pid, p)) all.emplace(pid, std::move(p));
  }
  return all;
}

/// User, nice and system time of all processors.
double busy_seconds() {
  std::istringstream in(whole("/proc/stat"));
  std::string word;
  double user = 0;
  double nice = 0;
  double system = 0;
  in >> word >> user >> nice >> system;
  return (user + nice + system) * tick;
}

bool mentions(pid_t pid, std::string const& folder) {
  return !folder.empty() && whole(fmt::format("/proc/{}/cmdline", pid)).find(folder) != std::string::npos;
}

}  // namespace

usage::usage(std::string const& folder) : busy_(busy_seconds()), at_(std::chrono::steady_clock::now()) {
  auto const all = all_processes();
  std::set<pid_t> roots{::getpid(), 2};  // and the kernel's own threads, which write what we have asked for
  // A shell that started the servers besides.
  if (!folder.empty()) roots.insert(::getppid());
  for (auto const& [pid, p] : all)
    if (mentions(pid, folder)) roots.insert(pid);
  auto const ours = [&](pid_t pid) {
    for (; pid > 0; pid = all.at(pid).parent) {
      if (roots.contains(pid)) return true;
      if (!all.contains(pid)) return false;
    }
    return false;
  };
  for (auto const& [pid, p] : all)
    processes_.emplace(pid, process{p.name, p.own, p.own + p.children, ours(pid)});
}

double usage::foreign_processors(usage const& then, usage const& now) {
  double ours = 0;
  for (auto const& [pid, p] : now.processes_) {
    if (!p.ours) continue;
    auto const before = then.processes_.find(pid);
    ours += p.seconds - (before == then.processes_.end() ? 0 : before->second.seconds);
  }
  auto const lasted = std::chrono::duration<double>(now.at_ - then.at_).count();
  return lasted > 0 ? std::max(0.0, (now.busy_ - then.busy_ - ours) / lasted) : 0;
}

std::string usage::foreign_names(usage const& then, usage const& now) {
  std::vector<std::pair<double, std::string>> all;
  auto const lasted = std::chrono::duration<double>(now.at_ - then.at_).count();
  for (auto const& [pid, p] : now.processes_) {
    if (p.ours) continue;
    auto const before = then.processes_.find(pid);
    auto const used = p.own - (before == then.processes_.end() ? 0 : before->second.own);
    if (used > 0.01 * lasted) all.emplace_back(used / lasted, fmt::format("{} (pid {})", p.name, pid));
  }
  std::sort(all.rbegin(), all.rend());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, all.size()); ++i)
    text += fmt::format("{}{} {:.0f} %", i == 0 ? "" : ", ", all[i].second, all[i].first * 100);
  return text.empty() ? "processes that have ended since, such as compilers" : text;
}

}  // namespace rowlock::bench
