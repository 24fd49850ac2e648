#include "support/threads.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "support/eventually.hpp"

namespace rowlock::test {
namespace {

bool sleeps(std::filesystem::path const& task) {
  std::ifstream file(task / "stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  auto const name_end = line.rfind(") ");  // a name may have any characters
  return name_end != line.npos && line.substr(name_end + 2, 1) == "S";
}

// ThreadSanitizer has threads of its own, from the first that the program begins, and one more after a fork.
#if defined(__SANITIZE_THREAD__)
constexpr bool has_sanitizers_threads = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool has_sanitizers_threads = true;
#else
constexpr bool has_sanitizers_threads = false;
#endif
#else
constexpr bool has_sanitizers_threads = false;
#endif

std::string name_of(std::filesystem::path const& task) {
  std::string name;
  std::getline(std::ifstream(task / "comm"), name);
  return name;
}

// They have the process's name, and wake by themselves.
bool is_sanitizers(std::string const& name) {
  return has_sanitizers_threads && name == name_of("/proc/self");
}

template <class F>
void each_other_thread(F const& f) {
  auto const mine = std::to_string(::gettid());
  for (auto const& task : std::filesystem::directory_iterator("/proc/self/task"))
    if (task.path().filename() != mine) f(task.path());
}

}  // namespace

bool comes_to_rest(std::atomic<int> const& thread) {
  return eventually([&] { return thread != 0 && sleeps("/proc/self/task/" + std::to_string(thread)); });
}

std::map<std::string, std::string> other_threads() {
  std::map<std::string, std::string> out;
  each_other_thread([&](std::filesystem::path const& task) {
    if (auto name = name_of(task); !name.empty() && !is_sanitizers(name))
      out.emplace(task.filename(), std::move(name));
  });
  return out;
}

long times_slept_by_others() {
  constexpr std::string_view wanted = "voluntary_ctxt_switches:";
  long all = 0;
  each_other_thread([&](std::filesystem::path const& task) {
    if (is_sanitizers(name_of(task))) return;
    std::ifstream file(task / "status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(wanted)) all += std::stol(line.substr(wanted.size()));
  });
  return all;
}

bool others_come_to_rest() {
  return eventually([&] {
    bool all = true;
    each_other_thread([&](std::filesystem::path const& task) { all = all && sleeps(task); });
    return all;
  });
}

}  // namespace rowlock::test
