// Many threads that wait for names which another process holds all the time.
#include <dirent.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <string_view>
#include <thread>

#include "children.hpp"
#include "measure.hpp"

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;

constexpr int names = 100;

struct seen {
  double processor_seconds;
  double connections;
  std::atomic<int> got_in;  ///< nobody should
};

double processor_time() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/// How many sockets this process has open; one that has two descriptors counts once.
std::size_t open_sockets() {
  std::set<std::string> sockets;
  auto const close = [](DIR* d) { ::closedir(d); };
  std::unique_ptr<DIR, decltype(close)> const folder(::opendir("/proc/self/fd"), close);
  if (!folder) return 0;
  while (auto const* entry = ::readdir(folder.get())) {
    std::array<char, 64> target{};
    if (::readlinkat(::dirfd(folder.get()), entry->d_name, target.data(), target.size() - 1) > 0 &&
        std::string_view(target.data()).starts_with("socket:"))
      sockets.insert(target.data());
  }
  return sockets.size();
}

std::string name_of(crew_plan const& plan, int i) { return fmt::format("{}-{}", plan.name, i % names); }

void hold_all(session& s, crew_plan const& plan, child_line const& line) {
  std::vector<std::unique_ptr<client>> holders;
  holders.reserve(names);
  for (int i = 0; i < names; ++i) {
    holders.push_back(s.new_client());
    holders.back()->take(name_of(plan, i), {});
  }
  line.say_ready();
  line.wait_for_stop();
  for (auto const& each : holders) each->give_back();
}

void wait_for_all(session& s, crew_plan const& plan, child_line const& line, seen& result) {
  std::atomic<int> begun = 0;
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(plan.threads));
  for (int i = 0; i < plan.threads; ++i)
    threads.emplace_back([&, i](std::stop_token const& stop) {
      try {
        auto const me = s.new_client();
        ++begun;
        begun.notify_all();
        if (me->take(name_of(plan, i), stop)) {
          ++result.got_in;
          me->give_back();
        }
      } catch (std::exception const&) {
        ++result.got_in;  // it does not wait, whatever the reason
      }
    });
  for (int now = 0; (now = begun) < plan.threads;) begun.wait(now);
  // Until the first attempts are over, and the waits are long.
  std::this_thread::sleep_for(2s);
  line.say_ready();
  line.wait_for_go();
  auto const before = processor_time();
  std::this_thread::sleep_for(plan.lasts);
  result.processor_seconds = processor_time() - before;
  result.connections = static_cast<double>(open_sockets());
  for (auto& each : threads) each.request_stop();
}

}  // namespace

measurement measure_waiting(system_entry const& system, std::string const& address, crew_plan const& plan) {
  shared_memory<seen> result(1);
  child_group holder(1, [&](int, child_line const& line) {
    auto const s = system.open(address);
    hold_all(*s, plan, line);
  });
  holder.await_ready(60s);
  child_group waiter(1, [&](int, child_line const& line) {
    auto const s = system.open(address);
    wait_for_all(*s, plan, line, result[0]);
  });
  waiter.await_ready(60s);
  waiter.go();
  waiter.await_end(plan.lasts + 10s);
  holder.stop();
  holder.await_end(10s);
  if (result[0].got_in > 0) throw peer_error(fmt::format("{} threads did not wait", result[0].got_in.load()));
  measurement m;
  m.values["core_percent"] =
      result[0].processor_seconds * 100 / std::chrono::duration<double>(plan.lasts).count();
  m.values["connections"] = result[0].connections;
  return m;
}

}  // namespace rowlock::bench
