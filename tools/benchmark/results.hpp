#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios.hpp"

namespace rowlock::bench {

/// What one system did in one round: numbers by name ("per_second", "p50_us", ...).
struct measurement {
  std::map<std::string, double> values;
  std::vector<std::uint64_t> cycles{};  ///< of each process that competed
};

struct system_result {
  std::string id;
  std::string title;
  std::vector<std::optional<measurement>> rounds{};  ///< empty where it failed
  std::string trouble{};                             ///< why it failed, or was not measured at all
};

struct scenario_result {
  scenario const* what = nullptr;
  std::vector<system_result> systems{};
  /// Processors that were kept busy meanwhile by processes which are not the benchmark's, and who that was.
  double foreign = 0;
  std::string foreign_names{};

  system_result const* find(std::string const& system) const;
};

/// The middle of some numbers, and its quartiles.
struct spread {
  double median = 0;
  double lower = 0;
  double upper = 0;
};
std::optional<spread> spread_of(std::vector<double>);
std::optional<spread> spread_of(system_result const&, std::string const& metric);

enum class judgement { reached, missed, open };

struct verdict {
  bound const* line = nullptr;
  std::optional<spread> value{};  ///< of the ratios of each round
  judgement said = judgement::open;
  std::string why{};  ///< it is open
};

/// A line for each of the bounds, which must outlive it, whose scenario was measured.
/// @param reason if not empty, why nothing is judged
std::vector<verdict> judge(std::vector<scenario_result> const&, std::vector<bound> const&,
                           std::string const& reason);

}  // namespace rowlock::bench
