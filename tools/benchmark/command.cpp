// What it costs to start a program.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "command.hpp"
#include "measure.hpp"

namespace rowlock::bench {
namespace {

using clock = std::chrono::steady_clock;

constexpr int starts = 10;         ///< in each round
constexpr int many_cycles = 1001;  ///< under strace
constexpr int few_cycles = 1;      ///< to find out what the program needs for everything else

/// Calls by name, from the table that strace -c writes.
std::map<std::string, double> calls_in(std::string const& file) {
  std::map<std::string, double> calls;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    double count = 0;
    // With -U name,calls there are these two columns.
    if (words >> name >> count && count > 0 && name != "total") calls[name] = count;
  }
  return calls;
}

std::map<std::string, double> traced(system_entry const& system, places const& where, int count) {
  auto const file = where.at("folder") + "/strace";
  run_command({{"strace", "-f", "-c", "-U", "name,calls", "-o", file,
                std::filesystem::read_symlink("/proc/self/exe").string(), "--places", where.at("places"),
                "--cycles", std::to_string(count), "--system", system.id}});
  return calls_in(file);
}

}  // namespace

void run_command(command_line const& command) {
  auto const& words = command.words;
  auto const texts = [](std::vector<std::string> const& all) {
    std::vector<char*> pointers;
    for (auto const& each : all)
      pointers.push_back(const_cast<char*>(each.c_str()));  // NOLINT: posix_spawn takes them so
    return pointers;
  };
  auto arguments = texts(words);
  arguments.push_back(nullptr);
  auto environment = texts(command.environment);
  for (char** each = environ; *each != nullptr; ++each) environment.push_back(*each);
  environment.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  int const failed =
      ::posix_spawnp(&pid, arguments[0], &quiet, nullptr, arguments.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&quiet);
  if (failed != 0) throw std::system_error(failed, std::system_category(), words[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::system_category(), "waitpid");
  if (status != 0) throw peer_error(fmt::format("{} ended with status {}", words[0], status >> 8));
}

measurement measure_command(system_entry const& system, places const& where) {
  auto const commands = system.commands(where);
  std::vector<double> times;
  for (int i = 0; i <= starts; ++i) {
    auto const begun = clock::now();
    for (auto const& each : commands) run_command(each);
    // The first one only brings it into memory.
    if (i > 0) times.push_back(std::chrono::duration<double, std::milli>(clock::now() - begun).count());
  }
  measurement m;
  m.values["ms"] = spread_of(times)->median;
  return m;
}

measurement measure_syscalls(system_entry const& system, places const& where) {
  auto const few = traced(system, where, few_cycles);
  auto const many = traced(system, where, many_cycles);
  measurement m;
  double all = 0;
  for (auto const& [name, count] : many) {
    auto const before = few.find(name);
    auto const each = (count - (before == few.end() ? 0 : before->second)) / (many_cycles - few_cycles);
    all += each;
    // Less than one in twenty cycles is the program's start and its threads' timers.
    if (each >= 0.05) m.values["call " + name] = each;
  }
  m.values["calls"] = all;
  return m;
}

}  // namespace rowlock::bench
