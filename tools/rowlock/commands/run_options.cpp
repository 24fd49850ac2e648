#include "commands/run_options.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "duration.hpp"
#include "exit_status.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds longest_standard_grace = 5s;

/// What SIGKILL and the kernel need to end the tree on a busy machine; beyond trust there is the margin of a
/// tenth of the ttl besides.
milliseconds slack_for(milliseconds ttl) { return std::clamp(ttl / 20, 20ms, 500ms); }

}  // namespace

mutex_options run_options::for_mutex() const {
  mutex_options o;
  if (ttl) o.ttl = *ttl;
  if (at_least) o.at_least = *at_least;
  o.note = note;
  if (strategy_name.empty()) return o;
  auto const how = strategy_from_string(strategy_name);
  if (!how)
    throw failure(exit_usage, fmt::format("--strategy: there is no '{}'; lease is the one to use if in doubt",
                                          strategy_name));
  o.how = *how;
  return o;
}

guard_plan run_options::for_guard(std::vector<std::string> command) const {
  auto const lasts = ttl.value_or(mutex_options{}.ttl);
  auto const slack = slack_for(lasts);
  auto const g = grace.value_or(std::min(longest_standard_grace, lasts / 6));
  // Renewals are sent each third of the ttl and trusted for nine tenths of it: just before one, 0.57 ttl are
  // left. Half the ttl leaves a little for the round trip.
  if (auto const room = lasts / 2 - slack; g > room) {
    if (room < 0ms)
      throw failure(exit_usage,
                    fmt::format("--ttl: {} is too short; 100ms is the least", format_duration(lasts)));
    throw failure(
        exit_usage,
        fmt::format(
            "--grace {} does not fit into --ttl {}: the lock is renewed each {} and trusted for {}, so "
            "that at most {} are left for an end in time. Give --grace {} or less, or --ttl {} or more",
            format_duration(g), format_duration(lasts), format_duration(lasts / 3),
            format_duration(lasts * 9 / 10), format_duration(room), format_duration(room),
            format_duration(std::chrono::ceil<std::chrono::seconds>((g + 500ms) * 2))));
  }
  return {std::move(command), g, slack};
}

}  // namespace rowlock::tool
