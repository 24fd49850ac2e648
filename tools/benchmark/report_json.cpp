#include <nlohmann/json.hpp>

#include "report.hpp"

namespace rowlock::bench {
namespace {

using nlohmann::json;

json pairs(std::vector<std::pair<std::string, std::string>> const& all) {
  json j = json::object();
  for (auto const& [name, value] : all) j[name] = value;
  return j;
}

json quartiles(std::optional<spread> const& value) {
  if (!value) return nullptr;
  return {{"median", value->median}, {"lower", value->lower}, {"upper", value->upper}};
}

json rounds(system_result const& system) {
  json all = json::array();
  for (auto const& round : system.rounds) {
    if (!round) {
      all.push_back(nullptr);
      continue;
    }
    json one = round->values;
    if (round->cycles.size() > 1) one["cycles_of_each_process"] = round->cycles;
    all.push_back(std::move(one));
  }
  return all;
}

json scenario_json(scenario_result const& result) {
  json systems = json::array();
  for (auto const& each : result.systems) {
    json one{{"id", each.id}, {"title", each.title}, {"rounds", rounds(each)}};
    if (!each.trouble.empty()) one["trouble"] = each.trouble;
    systems.push_back(std::move(one));
  }
  return {{"id", result.what->id},
          {"title", result.what->title},
          {"systems", std::move(systems)},
          {"processors_used_by_others", result.foreign}};
}

json verdict_json(verdict const& v) {
  static char const* const rules[] = {"ahead", "times", "at_least", "at_most"};
  static char const* const words[] = {"reached", "missed", "open"};
  json one{{"scenario", v.line->scenario},
           {"system", v.line->system},
           {"metric", v.line->metric},
           {"rule", rules[static_cast<int>(v.line->how)]},
           {"bound", v.line->value},
           {"value", quartiles(v.value)},
           {"verdict", words[static_cast<int>(v.said)]}};
  if (!v.line->against.empty()) one["against"] = v.line->against;
  if (!v.why.empty()) one["why"] = v.why;
  return one;
}

}  // namespace

json as_json(report const& all) {
  json scenarios = json::array();
  for (auto const& each : all.scenarios) scenarios.push_back(scenario_json(each));
  json verdicts = json::array();
  for (auto const& each : all.verdicts) verdicts.push_back(verdict_json(each));
  json j{{"machine", pairs(all.machine)},
         {"settings", pairs(all.settings)},
         {"rounds", all.rounds},
         {"scenarios", std::move(scenarios)},
         {"verdicts", std::move(verdicts)}};
  if (!all.not_judged.empty()) j["not_judged"] = all.not_judged;
  return j;
}

}  // namespace rowlock::bench
