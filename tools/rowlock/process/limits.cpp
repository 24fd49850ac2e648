#include "process/limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "process/descriptor.hpp"

namespace rowlock::tool {
namespace {

/// Three connections to a database, each with what its driver and TLS open beside it, and what the guardian
/// needs.
constexpr int files_needed = 24;

/// Four times what connections to PostgreSQL by TLS were seen to need. With too little the program ends by
/// SIGSEGV.
constexpr rlim_t stack_needed = rlim_t{256} * 1024;

std::string limit_of(decltype(RLIMIT_NOFILE) what) {
  rlimit now{};
  if (::getrlimit(what, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return "no limit here";
  return fmt::format("{} here", now.rlim_cur);
}

bool is_limited(decltype(RLIMIT_NOFILE) what) {
  rlimit now{};
  return ::getrlimit(what, &now) == 0 && now.rlim_cur != RLIM_INFINITY;
}

/// As `ulimit -v` counts it.
std::string memory_limit() {
  rlimit now{};
  if (::getrlimit(RLIMIT_AS, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return "no limit here";
  return fmt::format("{} here", now.rlim_cur / 1024);
}

/// The ids of this process, from the pid namespace of /proc down to its own; empty if /proc does not know it.
std::vector<long> ids_in_proc() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::vector<long> ids;
    char* rest = line.data() + 6;
    for (char* end = nullptr; *rest != '\0'; rest = end) {
      ids.push_back(std::strtol(rest, &end, 10));
      if (end == rest) return {};
    }
    return ids;
  }
  return {};
}

}  // namespace

std::optional<std::string> limit_behind(int error) {
  switch (error) {
    case EMFILE:
      return fmt::format("this process may have no more files open: raise `ulimit -n` ({}), or LimitNOFILE=",
                         limit_of(RLIMIT_NOFILE));
    case ENFILE:
      return "this machine may have no more files open: raise fs.file-max";
    case EAGAIN:
      // A thread whose stack has no room says the same.
      return fmt::format(
          "no further process or thread can be started: raise {}`ulimit -u` ({}), or the limit of the "
          "container "
          "or unit (pids.max, TasksMax=)",
          is_limited(RLIMIT_AS) ? fmt::format("`ulimit -v` ({}), ", memory_limit()) : std::string(),
          limit_of(RLIMIT_NPROC));
    case ENOMEM:
      return fmt::format(
          "there is no more memory: free some, or raise `ulimit -v` ({}), or the limit of the "
          "container or unit (memory.max, MemoryMax=)",
          memory_limit());
    default:
      return std::nullopt;
  }
}

void require_room_on_stack() {
  rlimit now{};
  if (::getrlimit(RLIMIT_STACK, &now) != 0 || now.rlim_cur == RLIM_INFINITY || now.rlim_cur >= stack_needed)
    return;
  throw system_refusal(fmt::format(
      "the stack may become no larger than {} KiB, and {} are needed: raise `ulimit -s` ({} here), "
      "or LimitSTACK=",
      now.rlim_cur / 1024, stack_needed / 1024, now.rlim_cur / 1024));
}

void require_room_for_files() {
  std::vector<descriptor> taken;
  for (int i = 0; i < files_needed; ++i) {
    taken.emplace_back(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    if (taken.back()) continue;
    if (auto const limit = limit_behind(errno == EINVAL ? EMFILE : errno))
      throw system_refusal(
          fmt::format("{} more files have to be opened than can be opened: {}", files_needed - i, *limit));
  }
}

void require_own_proc() {
  auto const ids = ids_in_proc();
  if (ids.size() == 1 && ids.front() == ::getpid()) return;
  throw system_refusal(fmt::format(
      "rowlock run finds the processes that it may have to end in /proc, and {}. Have it mounted: `mount -t "
      "proc proc /proc`, `unshare --mount-proc`; in a chroot, too",
      ids.empty() ? "there is none here that shows this process"
                  : "the one here belongs to another pid namespace"));
}

}  // namespace rowlock::tool
