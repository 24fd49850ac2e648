#include "cli/program.hpp"

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "support/eventually.hpp"

namespace rowlock::test {
namespace {

void open_as(int fd, std::string const& path, int flags) {
  int const opened = ::open(path.c_str(), flags, 0600);
  if (opened < 0 || ::dup2(opened, fd) < 0) ::_exit(99);
  ::close(opened);
}

void set_environment(environment const& changes, std::string const& home) {
  ::unsetenv("ROWLOCK_DB");
  ::unsetenv("XDG_STATE_HOME");
  ::setenv("HOME", home.c_str(), 1);
  for (auto const& [name, value] : changes)
    value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
}

// Not by counting on from the parent's id: ids begin again at some point.
pid_t named_guardian_of(pid_t parent) {
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  while (dirent const* entry = ::readdir(proc.get())) {
    auto const status = read_file(fmt::format("/proc/{}/status", entry->d_name));
    if (status.starts_with("Name:\tlock-guardian\n") &&
        status.find(fmt::format("\nPPid:\t{}\n", parent)) != std::string::npos)
      return std::atoi(entry->d_name);
  }
  return -1;
}

/// The most memory that a running program has had; 0 before it is one. What the kernel counts for wait4()
/// begins with the memory of the process that has forked it, and that is ours.
long peak_of(pid_t pid) {
  auto const program = [](std::string const& of) {
    std::error_code none;
    return std::filesystem::read_symlink("/proc/" + of + "/exe", none);
  };
  auto const its = program(std::to_string(pid));
  if (its.empty() || its == program("self")) return 0;
  auto const status = read_file(fmt::format("/proc/{}/status", pid));
  auto const at = status.find("\nVmHWM:");
  return at == status.npos ? 0 : std::atol(status.c_str() + at + 7);
}

}  // namespace

program::program(words args, environment env, std::string const& input) {
  std::ofstream(folder_.file("in")) << input;
  std::vector<char*> argv;
  for (auto& a : args) argv.push_back(a.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ > 0) {
    ::setpgid(pid_, pid_);
    return;
  }
  ::setpgid(0, 0);
  open_as(0, folder_.file("in"), O_RDONLY);
  open_as(1, folder_.file("out"), O_WRONLY | O_CREAT | O_APPEND);
  open_as(2, folder_.file("err"), O_WRONLY | O_CREAT | O_APPEND);
  set_environment(env, folder_.path().string());
  ::execvp(argv[0], argv.data());
  ::_exit(98);
}

program::~program() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void program::signal(int s) const { ::kill(pid_, s); }
void program::signal_group(int s) const { ::kill(-pid_, s); }

int program::wait() {
  int status = 0;
  bool const ended = within(180s, [&] {
    peak_kilobytes_ = std::max(peak_kilobytes_, peak_of(pid_));
    return ::waitpid(pid_, &status, WNOHANG) == pid_;
  });
  if (!ended) FAIL("the program has not ended; it printed: " << out() << err());
  pid_ = -1;
  if (WIFSIGNALED(status)) died_of_ = WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string program::out() const { return read_file(folder_.file("out")); }
std::string program::err() const { return read_file(folder_.file("err")); }

bool program::prints(std::string const& text) {
  return within(60s, [&] { return out() == text + "\n"; });
}

finished run(words args, environment env, std::string const& input) {
  program p(std::move(args), std::move(env), input);
  int const status = p.wait();
  return {status, p.out(), p.err()};
}

bool within(std::chrono::milliseconds patience, std::function<bool()> const& condition) {
  return eventually(condition, patience);
}

std::string read_file(std::string const& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool alive(pid_t pid) {
  auto const stat = read_file(fmt::format("/proc/{}/stat", pid));
  auto const name_end = stat.rfind(')');
  return name_end != stat.npos && stat.substr(name_end).find(") Z") != 0;
}

bool any_process_with(std::string const& text, pid_t except) {
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  while (dirent const* entry = ::readdir(proc.get()))
    if (std::to_string(except) != entry->d_name &&
        read_file(fmt::format("/proc/{}/cmdline", entry->d_name)).find(text) != std::string::npos)
      return true;
  return false;
}

pid_t guardian_of(pid_t parent) {
  pid_t found = -1;
  within(60s, [&] { return (found = named_guardian_of(parent)) > 0; });
  return found;
}

bool all_stopped_with(std::string const& text) {
  std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  while (dirent const* entry = ::readdir(proc.get())) {
    auto const file = [&](char const* name) {
      return read_file(fmt::format("/proc/{}/{}", entry->d_name, name));
    };
    if (file("cmdline").find(text) == std::string::npos || file("comm") == "lock-guardian\n") continue;
    if (file("stat").find(") T ") == std::string::npos) return false;
  }
  return true;
}

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace rowlock::test
