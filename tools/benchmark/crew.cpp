#include "crew.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>

#include "children.hpp"

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr int warm_up = 20;  ///< cycles of each thread on a name of its own, before all begin
/// Where all want one name, nothing is counted until each has had it once: whoever meets others for the first
/// time opens sessions to wait in. But not for longer than this.
constexpr auto longest_settling = 3s;

/// What a thread has counted. In shared memory, so that it counts also if the process must be killed.
struct seat {
  std::atomic<bool> had;  ///< it once
  std::atomic<std::uint64_t> cycles;
  std::atomic<std::uint64_t> longest_wait;  ///< nanoseconds
  histogram times;
};
struct process_seat {
  double processor_seconds;
};

/// What the lock protects, if there is but one.
struct protected_part {
  std::atomic<int> inside;
  std::atomic<std::uint64_t> last;  ///< a thread's number, from 1
  std::atomic<std::uint64_t> handovers;
  std::atomic<bool> counts;  ///< from now on

  void enter(std::uint64_t thread) {
    if (inside.fetch_add(1) != 0) throw peer_error("TWO HAD THE LOCK AT ONCE");
    if (last.exchange(thread) != thread && counts) ++handovers;
  }
  void leave() noexcept { --inside; }
};

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](timeval const& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::uint64_t nanoseconds(clock::duration d) {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(d).count());
}

/// Not a sleep: that would take 60 microseconds more than it was asked for.
void stay_inside(std::chrono::microseconds section) {
  if (section >= 1ms) {
    std::this_thread::sleep_for(section);
    return;
  }
  auto const end = clock::now() + section;
  while (section > 0us && clock::now() < end) {
  }
}

/// The threads of one process.
class team {
 public:
  team(session& s, crew_plan const& plan, int process, seat* seats, protected_part& part)
      : session_(s), plan_(plan), process_(process), seats_(seats), part_(part), ready_(plan.threads) {
    for (int i = 0; i < plan_.threads; ++i)
      threads_.emplace_back([this, i](std::stop_token stop) { work(i, std::move(stop)); });
  }
  void await_ready() {
    ready_.wait();
    std::scoped_lock const guard(mutex_);
    if (trouble_) std::rethrow_exception(trouble_);
  }
  void go() {
    going_ = true;
    going_.notify_all();
  }
  void end() {
    for (auto& each : threads_) each.request_stop();
    threads_.clear();
    if (trouble_) std::rethrow_exception(trouble_);
  }
  /// Of this process, when it began to count.
  double processor_seconds_before() const noexcept { return before_; }
  ~team() {
    for (auto& each : threads_) each.request_stop();
    go();
  }

 private:
  void work(int thread, std::stop_token stop) {
    bool ready = false;
    try {
      auto const me = session_.new_client();
      auto const own = fmt::format("{}-{}-{}", plan_.name, process_, thread);
      for (int i = 0; i < warm_up && me->take(own, stop); ++i) me->give_back();
      ready_.count_down();
      ready = true;
      going_.wait(false);
      cycle(*me, plan_.one_name ? plan_.name : own, thread, stop);
    } catch (...) {
      std::scoped_lock const guard(mutex_);
      if (!trouble_) trouble_ = std::current_exception();
      if (!ready) ready_.count_down();
    }
  }

  void cycle(client& me, std::string const& name, int thread, std::stop_token const& stop) {
    auto& mine = seats_[thread];
    auto const number = static_cast<std::uint64_t>(process_) * static_cast<std::uint64_t>(plan_.threads) +
                        static_cast<std::uint64_t>(thread) + 1;
    while (!stop.stop_requested()) {
      auto const begun = clock::now();
      bool const taken = me.take(name, stop);
      auto const inside = clock::now();
      bool const counts = part_.counts;
      if (counts && !counting_.exchange(true)) before_ = processor_seconds();
      // Also one that was cut short: who never gets it has waited longest of all.
      if (counts) mine.longest_wait = std::max(mine.longest_wait.load(), nanoseconds(inside - begun));
      if (!taken) return;
      mine.had = true;
      if (plan_.one_name) part_.enter(number);
      stay_inside(plan_.section);
      if (plan_.one_name) part_.leave();
      auto const leaving = clock::now();
      me.give_back();
      if (stop.stop_requested()) return;
      if (!counts) continue;
      mine.times.add(nanoseconds((inside - begun) + (clock::now() - leaving)));
      ++mine.cycles;
    }
  }

  session& session_;
  crew_plan const& plan_;
  int process_;
  seat* seats_;
  protected_part& part_;
  std::latch ready_;
  std::atomic<bool> going_ = false;
  std::atomic<bool> counting_ = false;
  std::atomic<double> before_ = 0;
  std::mutex mutex_;
  std::exception_ptr trouble_;
  std::vector<std::jthread> threads_;
};

}  // namespace

crew_result compete(system_entry const& system, std::string const& address, crew_plan const& plan) {
  auto const threads = static_cast<std::size_t>(plan.threads);
  shared_memory<seat> seats(static_cast<std::size_t>(plan.processes) * threads);
  shared_memory<process_seat> processes(static_cast<std::size_t>(plan.processes));
  shared_memory<protected_part> part(1);
  child_group group(plan.processes, [&](int process, child_line const& line) {
    auto const s = system.open(address);
    team mine(*s, plan, process, seats.begin() + static_cast<std::size_t>(process) * threads, part[0]);
    mine.await_ready();
    line.say_ready();
    line.wait_for_go();
    mine.go();
    line.wait_for_stop();
    processes[static_cast<std::size_t>(process)].processor_seconds =
        processor_seconds() - mine.processor_seconds_before();
    mine.end();
  });
  group.await_ready(30s);
  part[0].counts = !plan.one_name;
  group.go();
  auto const all_have_had_it = [&] {
    return std::all_of(seats.begin(), seats.begin() + seats.size(),
                       [](seat const& s) { return s.had.load(); });
  };
  for (auto const until = clock::now() + longest_settling;
       plan.one_name && !all_have_had_it() && clock::now() < until;)
    std::this_thread::sleep_for(10ms);
  auto const begun = clock::now();
  part[0].counts = true;
  std::this_thread::sleep_for(plan.lasts);
  group.stop();
  crew_result result;
  result.seconds = std::chrono::duration<double>(clock::now() - begun).count();
  result.handovers = part[0].handovers;
  // Those that wait for the lock get it from those that leave, or must be killed.
  group.await_end(3s);
  for (std::size_t p = 0; p < processes.size(); ++p) {
    std::uint64_t cycles = 0;
    for (std::size_t t = 0; t < threads; ++t) {
      auto const& one = seats[p * threads + t];
      cycles += one.cycles;
      result.times.add(one.times);
      result.longest_wait = std::max(result.longest_wait, static_cast<double>(one.longest_wait.load()) / 1e9);
    }
    result.cycles.push_back(cycles);
    result.processor_seconds += processes[p].processor_seconds;
  }
  return result;
}

void in_a_child(std::chrono::milliseconds timeout, std::function<void()> const& work) {
  child_group group(1, [&](int, child_line const& line) {
    work();
    line.say_ready();
  });
  group.await_ready(timeout);
  group.await_end(timeout);
}

}  // namespace rowlock::bench
