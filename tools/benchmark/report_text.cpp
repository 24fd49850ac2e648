#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report.hpp"

namespace rowlock::bench {
namespace {

/// "1.23", "12.3", "1,234".
std::string number(double value) {
  if (value < 10) return fmt::format("{:.2f}", value);
  if (value < 100) return fmt::format("{:.1f}", value);
  auto text = fmt::format("{:.0f}", value);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > 0; i -= 3)
    text.insert(static_cast<std::size_t>(i), ",");
  return text;
}

struct column {
  char const* metric;
  char const* heading;
};
// Those that no system of a scenario has are left out.
constexpr column columns[] = {{"p50_us", "p50 us"},
                              {"p99_us", "p99 us"},
                              {"per_second", "per s"},
                              {"handovers_per_second", "hand-overs/s"},
                              {"client_cpu_us", "client us"},
                              {"smallest_share", "least share"},
                              {"largest_to_smallest", "most/least"},
                              {"longest_wait_ms", "longest ms"},
                              {"stall_p999_ms", "stall p99.9 ms"},
                              {"stall_max_ms", "stall max ms"},
                              {"core_percent", "% of a core"},
                              {"connections", "connections"},
                              {"ms", "ms"},
                              {"calls", "calls"}};

/// Of how many characters it is, not bytes.
std::string cell(std::string const& text, std::size_t width) { return fmt::format("{:>{}}", text, width); }

/// "call futex" and the like, the most frequent first.
std::string calls_by_name(system_result const& system) {
  std::vector<std::pair<double, std::string>> all;
  for (auto const& round : system.rounds)
    if (round)
      for (auto const& [name, count] : round->values)
        if (name.starts_with("call ")) all.emplace_back(count, name.substr(5));
  std::sort(all.rbegin(), all.rend());
  std::string text;
  for (auto const& [count, name] : all) text += fmt::format("  {} {:.2f}", name, count);
  return text;
}

std::string bound_text(bound const& line) {
  bool const at_least = line.how == rule::ahead || line.how == rule::at_least;
  return fmt::format("{} {}", at_least ? ">=" : "<=", line.value);
}

std::string title_of(std::string const& id) {
  auto const* const system = find_system(id);
  return system != nullptr ? system->title : id;
}

char const* word(judgement said) {
  if (said == judgement::open) return "not judged";
  return said == judgement::reached ? "reached" : "MISSED";
}

std::string verdict_line(verdict const& v) {
  auto const& line = *v.line;
  auto const value = v.value ? number(v.value->median) : std::string("-");
  auto const quartiles =
      v.value ? fmt::format("{} .. {}", number(v.value->lower), number(v.value->upper)) : std::string();
  return fmt::format("{:<15} {:<34} {:<36} {:>7}  {:<16} {:>8}  {}{}\n", line.scenario, title_of(line.system),
                     line.against.empty() ? line.metric : title_of(line.against), value, quartiles,
                     bound_text(line), word(v.said), v.why.empty() ? "" : ": " + v.why);
}

}  // namespace

std::string scenario_text(scenario_result const& result) {
  std::string text = fmt::format("\n{}: {}\n", result.what->id, result.what->title);
  std::vector<column> shown;
  for (auto const& each : columns)
    if (std::any_of(result.systems.begin(), result.systems.end(),
                    [&](system_result const& s) { return spread_of(s, each.metric).has_value(); }))
      shown.push_back(each);
  text += fmt::format("  {:<34}", "");
  for (auto const& each : shown) text += cell(each.heading, 13);
  text += '\n';
  for (auto const& system : result.systems) {
    text += fmt::format("  {:<34}", system.title);
    for (auto const& each : shown) {
      auto const value = spread_of(system, each.metric);
      text += cell(value ? number(value->median) : "-", 13);
    }
    if (!system.trouble.empty()) text += "  " + system.trouble;
    text += calls_by_name(system) + '\n';
  }
  if (result.foreign > 0.05)
    text += fmt::format("  Meanwhile others used {:.0f} % of a processor: {}\n", result.foreign * 100,
                        result.foreign_names);
  return text;
}

std::string heading_text(report const& all) {
  std::string text = "The machine\n";
  for (auto const& [name, value] : all.machine) text += fmt::format("  {:<14} {}\n", name, value);
  text += "The servers, each on 127.0.0.1\n";
  for (auto const& [name, value] : all.settings) text += fmt::format("  {:<14} {}\n", name, value);
  return text;
}

std::string verdicts_text(report const& all) {
  std::string text = fmt::format(
      "\nMust be reached: medians of the ratios of {} rounds, and their quartiles; above 1 rowlock is ahead "
      "where it "
      "says >=\n",
      all.rounds);
  text += fmt::format("{:<15} {:<34} {:<36} {:>7}  {:<16} {:>8}\n", "scenario", "rowlock", "against, or what",
                      "median", "quartiles", "bound");
  int reached = 0;
  int missed = 0;
  for (auto const& each : all.verdicts) {
    text += verdict_line(each);
    reached += each.said == judgement::reached ? 1 : 0;
    missed += each.said == judgement::missed ? 1 : 0;
  }
  if (!all.not_judged.empty()) text += fmt::format("Nothing is judged: {}\n", all.not_judged);
  text += fmt::format("{} reached, {} missed, {} not judged\n", reached, missed,
                      static_cast<int>(all.verdicts.size()) - reached - missed);
  return text;
}

}  // namespace rowlock::bench
