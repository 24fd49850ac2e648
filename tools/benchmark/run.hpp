#pragma once
#include <functional>
#include <string_view>

#include "results.hpp"

namespace rowlock::bench {

struct run_options {
  places where;
  distance servers = distance::local;
  bool quick = false;
  int rounds = 11;
  std::chrono::milliseconds lasts{1000};  ///< of one measurement; scenarios may want more
  std::vector<std::string> only;          ///< those whose SCENARIO/SYSTEM contains one of them; empty: all
  std::function<void(std::string_view)> say;
};

/// @throws std::logic_error if the tables of scenarios, systems and bounds do not fit together
void check_tables();

/// The scenarios that the options want, without the systems that they don't.
std::vector<scenario> wanted_scenarios(run_options const&);

/// In each round each system once, so that whatever else the machine does meets all of them alike.
/// The scenario must outlive the result.
scenario_result run(scenario const&, run_options const&);

}  // namespace rowlock::bench
