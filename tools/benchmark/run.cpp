#include "run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "measure.hpp"
#include "quiet.hpp"

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;

/// Why a system can't be measured here; empty if it can.
std::string missing(system_entry const& system, places const& where) {
  if (!where.contains(system.place)) return fmt::format("there is no {} in this run", system.place);
  if (!system.open && !system.commands) return "its client library was not found when this program was built";
  if (system.commands && !where.contains("rowlock")) return "there is no program rowlock in this run";
  return {};
}

/// Once for each system in this process' life.
void prepare(system_entry const& system, places const& where) {
  static std::set<std::string> done;
  if (!system.prepare || done.contains(system.id)) return;
  in_a_child(180s, [&] { system.prepare(where.at(system.place)); });
  done.insert(system.id);
}

crew_plan plan_for(scenario const& what, std::string const& system, int round, run_options const& options) {
  auto plan = what.plan;
  if (what.once) {
    plan.lasts = options.quick ? *what.once / 4 : *what.once;
  } else {
    plan.lasts = std::max(options.lasts, options.quick ? plan.lasts * 3 / 5 : plan.lasts);
  }
  // Another name each time: what an earlier measurement left behind must not hinder this one. And a name has
  // one strategy.
  plan.name = fmt::format("{}-{}-{}-{}", what.id, system, ::getpid(), round);
  return plan;
}

void measure_round(scenario_result& result, int round, run_options const& options) {
  auto const& what = *result.what;
  for (std::size_t i = 0; i < result.systems.size(); ++i) {
    // Each round begins with another one.
    auto& system = result.systems[(i + static_cast<std::size_t>(round)) % result.systems.size()];
    if (!system.trouble.empty()) continue;
    options.say(fmt::format("{}, round {}: {}", what.id, round + 1, system.title));
    auto& cell = system.rounds[static_cast<std::size_t>(round)];
    try {
      cell = measure(what, *find_system(system.id), options.where, plan_for(what, system.id, round, options));
    } catch (std::exception const& e) {
      system.trouble = e.what();
      options.say(fmt::format("{}: {}: {}\n", what.id, system.title, e.what()));
    }
  }
}

/// `name` is SCENARIO/SYSTEM.
bool chosen(std::vector<std::string> const& only, std::string const& name) {
  return only.empty() || std::any_of(only.begin(), only.end(), [&](std::string const& part) {
           return name.find(part) != std::string::npos;
         });
}

/// Whether one of the bounds needs it. Without a system: whether any does.
bool bounded(std::vector<bound> const& bounds, std::string const& scenario, std::string const& system) {
  return std::any_of(bounds.begin(), bounds.end(), [&](bound const& each) {
    return each.scenario == scenario && (each.system == system || each.against == system || system.empty());
  });
}

void check_tables(std::vector<scenario> const& scenarios, std::vector<bound> const& bounds) {
  for (auto const& each : scenarios)
    for (auto const& id : each.systems)
      if (find_system(id) == nullptr)
        throw std::logic_error(fmt::format("scenario {} names {}, which is no system", each.id, id));
  for (auto const& line : bounds) {
    auto const has = [&](scenario const& each) {
      auto const one = [&](std::string const& id) {
        return id.empty() || std::find(each.systems.begin(), each.systems.end(), id) != each.systems.end();
      };
      return each.id == line.scenario && one(line.system) && one(line.against);
    };
    if (std::none_of(scenarios.begin(), scenarios.end(), has))
      throw std::logic_error(
          fmt::format("a bound names {}/{}, which is not measured", line.scenario, line.system));
  }
}

}  // namespace

void check_tables() {
  for (auto const servers : {distance::local, distance::cloud})
    check_tables(scenarios(servers), bounds(servers));
}

std::vector<scenario> wanted_scenarios(run_options const& options) {
  auto const& lines = bounds(options.servers);
  std::vector<scenario> all;
  for (auto each : scenarios(options.servers)) {
    if (options.quick && each.long_only) continue;
    // Of those without any bound all systems are wanted.
    if (options.quick && bounded(lines, each.id, {}))
      std::erase_if(each.systems, [&](std::string const& id) {
        return !bounded(lines, each.id, id) && id != "flock" && id != "libraries";
      });
    std::erase_if(each.systems,
                  [&](std::string const& id) { return !chosen(options.only, each.id + "/" + id); });
    if (!each.systems.empty()) all.push_back(std::move(each));
  }
  return all;
}

scenario_result run(scenario const& what, run_options const& options) {
  scenario_result result{.what = &what};
  auto const rounds = what.once ? 1 : options.rounds;
  for (auto const& id : what.systems) {
    auto const* const system = find_system(id);

    auto& added = result.systems.emplace_back(system_result{.id = id, .title = system->title});
    added.rounds.resize(static_cast<std::size_t>(rounds));
    added.trouble = missing(*system, options.where);
    if (!added.trouble.empty()) continue;
    try {
      prepare(*system, options.where);
    } catch (std::exception const& e) {
      added.trouble = e.what();
    }
  }
  auto const folder = options.where.contains("folder") ? options.where.at("folder") : std::string();
  usage const before(folder);
  for (int round = 0; round < rounds; ++round) measure_round(result, round, options);
  usage const after(folder);
  result.foreign = usage::foreign_processors(before, after);
  if (result.foreign > 0.01) result.foreign_names = usage::foreign_names(before, after);
  return result;
}

}  // namespace rowlock::bench
