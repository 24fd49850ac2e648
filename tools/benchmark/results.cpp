#include "results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace rowlock::bench {
namespace {

/// Above this, what others do on the machine is part of the figures.
constexpr double foreign_limit = 0.15;

/// Where `part` of the sorted numbers lie below; between two of them by their distance.
double quantile(std::vector<double> const& sorted, double part) {
  auto const place = part * static_cast<double>(sorted.size() - 1);
  auto const below = static_cast<std::size_t>(place);
  auto const above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

std::optional<double> value_in(system_result const& system, std::size_t round, std::string const& metric) {
  if (round >= system.rounds.size() || !system.rounds[round]) return {};
  auto const found = system.rounds[round]->values.find(metric);
  if (found == system.rounds[round]->values.end()) return {};
  return found->second;
}

/// The number that is compared with the bound, in each round that has it.
std::vector<double> compared(bound const& line, system_result const& mine, system_result const* other) {
  std::vector<double> all;
  for (std::size_t round = 0; round < mine.rounds.size(); ++round) {
    auto const own = value_in(mine, round, line.metric);
    if (!own) continue;
    if (other == nullptr) {
      all.push_back(*own);
      continue;
    }
    auto const theirs = value_in(*other, round, line.metric);
    if (!theirs) continue;
    bool const own_first = line.how == rule::times || higher_is_better(line.metric);
    auto const top = own_first ? *own : *theirs;
    auto const bottom = own_first ? *theirs : *own;
    if (bottom > 0) all.push_back(top / bottom);
  }
  return all;
}

bool holds(bound const& line, double value) {
  bool const at_least = line.how == rule::ahead || line.how == rule::at_least;
  return at_least ? value >= line.value : value <= line.value;
}

/// Nothing if one of the two was not asked for.
std::optional<verdict> judge_line(bound const& line, scenario_result const& result,
                                  std::string const& reason) {
  verdict v{.line = &line};
  auto const* const mine = result.find(line.system);
  auto const* const other = line.against.empty() ? nullptr : result.find(line.against);
  if (mine == nullptr || (other == nullptr && !line.against.empty())) return {};
  for (auto const* const each : {mine, other})
    if (each != nullptr && v.why.empty() && !each->trouble.empty())
      v.why = fmt::format("{}: {}", each->title, each->trouble);
  v.value = spread_of(compared(line, *mine, other));
  if (!v.value || !v.why.empty()) return v;
  if (!reason.empty()) {
    v.why = reason;
  } else if (result.foreign > foreign_limit) {
    v.why = fmt::format("meanwhile others used {:.0f} % of a processor: {}", result.foreign * 100,
                        result.foreign_names);
  } else {
    v.said = holds(line, v.value->median) ? judgement::reached : judgement::missed;
  }
  return v;
}

}  // namespace

system_result const* scenario_result::find(std::string const& system) const {
  for (auto const& each : systems)
    if (each.id == system) return &each;
  return nullptr;
}

std::optional<spread> spread_of(std::vector<double> all) {
  if (all.empty()) return {};
  std::sort(all.begin(), all.end());
  return spread{quantile(all, 0.5), quantile(all, 0.25), quantile(all, 0.75)};
}

std::optional<spread> spread_of(system_result const& system, std::string const& metric) {
  std::vector<double> all;
  for (std::size_t round = 0; round < system.rounds.size(); ++round)
    if (auto const value = value_in(system, round, metric)) all.push_back(*value);
  return spread_of(std::move(all));
}

std::vector<verdict> judge(std::vector<scenario_result> const& results, std::vector<bound> const& bounds,
                           std::string const& reason) {
  std::vector<verdict> all;
  for (auto const& line : bounds)
    for (auto const& result : results)
      if (result.what->id == line.scenario)
        if (auto one = judge_line(line, result, reason)) all.push_back(*std::move(one));
  return all;
}

}  // namespace rowlock::bench
