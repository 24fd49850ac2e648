#pragma once
#include <nlohmann/json_fwd.hpp>

#include "results.hpp"

namespace rowlock::bench {

/// All that one run found out.
struct report {
  std::vector<std::pair<std::string, std::string>> machine;   ///< what it ran on
  std::vector<std::pair<std::string, std::string>> settings;  ///< of each server, as it was started
  std::vector<scenario_result> scenarios;
  std::vector<verdict> verdicts;
  int rounds = 0;            ///< of a scenario that is not measured once alone
  std::string not_judged{};  ///< why there are no verdicts; empty if there are
};

/// For people: the machine and the servers; the figures of a scenario; a line for each verdict.
std::string heading_text(report const&);
std::string scenario_text(scenario_result const&);
std::string verdicts_text(report const&);
nlohmann::json as_json(report const&);

/// Writes pictures by gnuplot: SVG, in that folder. @return the files
/// @throws std::exception if gnuplot can't be run
std::vector<std::string> draw(report const&, std::string const& folder);

}  // namespace rowlock::bench
