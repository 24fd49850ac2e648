#include "measure.hpp"

#include <algorithm>

namespace rowlock::bench {
namespace {

measurement measure_crew(system_entry const& system, std::string const& address, crew_plan const& plan) {
  auto const result = compete(system, address, plan);
  measurement m{.values = {}, .cycles = result.cycles};
  double all = 0;
  for (auto const cycles : result.cycles) all += static_cast<double>(cycles);
  if (all == 0) throw peer_error("not one cycle came to its end");
  m.values["per_second"] = all / result.seconds;
  m.values["p50_us"] = result.times.nanoseconds(0.5) / 1000;
  m.values["p99_us"] = result.times.nanoseconds(0.99) / 1000;
  m.values["longest_wait_ms"] = result.longest_wait * 1000;
  m.values["client_cpu_us"] = result.processor_seconds * 1e6 / all;
  if (plan.one_name)
    m.values["handovers_per_second"] = static_cast<double>(result.handovers) / result.seconds;
  if (result.cycles.size() > 1) {
    auto const [least, most] = std::minmax_element(result.cycles.begin(), result.cycles.end());
    m.values["smallest_share"] =
        static_cast<double>(*least) * static_cast<double>(result.cycles.size()) / all;
    // With none at all there is no such number; one cycle is close enough.
    m.values["largest_to_smallest"] =
        static_cast<double>(*most) / static_cast<double>(std::max<std::uint64_t>(1, *least));
  }
  return m;
}

/// Which a loop's coroutines are compared with.
crew_plan threads_beside_a_loop(crew_plan plan) {
  plan.threads = 8;
  return plan;
}

}  // namespace

measurement measure(scenario const& what, system_entry const& system, places const& where,
                    crew_plan const& plan) {
  auto const& address = where.at(system.place);
  switch (what.how) {
    case method::waiting:
      return measure_waiting(system, address, plan);
    case method::command:
      return measure_command(system, where);
    case method::syscalls:
      return measure_syscalls(system, where);
    case method::loop:
      if (system.coroutines) return measure_loop(system, address, plan);
      return measure_crew(system, address, threads_beside_a_loop(plan));
    case method::crew:
      break;
  }
  return measure_crew(system, address, plan);
}

}  // namespace rowlock::bench
