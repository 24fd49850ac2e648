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

std::vector<std::string> run_options::names() const {
  std::vector<std::string> all{name};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

mutex_options run_options::for_mutex() const {
  if (!share.all() && !others.empty())
    throw failure(exit_usage, "--and can't be used with --shared or --permits: one lock at a time");
  if (!share.all() && !strategy_name.empty())
    throw failure(exit_usage, "--strategy can't be used with --shared or --permits, which have their own");
  if (of_majority && (!share.all() || !others.empty() || !strategy_name.empty()))
    throw failure(exit_usage,
                  "--and, --shared, --permits and --strategy can't be used with several --db, which have a "
                  "strategy of their own");
  mutex_options o;
  if (ttl) o.ttl = *ttl;
  if (at_least) o.at_least = *at_least;
  if (hard_limit) o.hard_limit = *hard_limit;
  o.note = note;
  if (of_majority) {
    o.strategy = strategy::quorum;
    return o;
  }
  if (record_for) {
    o.strategy = strategy::once;
    return o;
  }
  if (strategy_name.empty()) return o;
  auto const how = strategy_from_string(strategy_name);
  if (!how)
    throw failure(
        exit_usage,
        fmt::format("--strategy: there is no '{}'; there are lease (use it if in doubt), unique_insert, "
                    "row_lock and shared",
                    strategy_name));
  if (traits(*how).records_done)
    throw failure(exit_usage,
                  "--strategy: 'once' is what `rowlock once` uses: rowlock once NAME --for 30d -- COMMAND");
  if (traits(*how).counted && *how != strategy::shared)
    throw failure(exit_usage, "--strategy semaphore: say --permits N instead");
  o.strategy = *how;
  o.fencing = true;  // the command finds it in ROWLOCK_TOKEN
  if (traits(*how).has_expiry) return o;
  if (at_least)
    throw failure(exit_usage, "--at-least can't be used with row_lock, which ends with the database session");
  if (hard_limit)
    throw failure(exit_usage,
                  "--hard-limit can't be used with row_lock, which has no expiry; timeout(1) ends a command");
  if (!note.empty()) throw failure(exit_usage, "--note can't be used with row_lock, which writes nothing");
  return o;
}

bool run_options::is_done(outcome const& o) const noexcept {
  if (done_status && o.exited_with(*done_status)) return true;
  return o.asked_to_end == 0 && o.exited_with(0);
}

milliseconds run_options::lasts() const { return ttl.value_or(mutex_options{}.ttl); }

milliseconds run_options::longest_term() const { return std::min(lasts(), hard_limit.value_or(lasts())); }

milliseconds run_options::time_to_end() const {
  return grace.value_or(std::min(longest_standard_grace, longest_term() / 6));
}

guard_plan run_options::for_guard(std::vector<std::string> command) const {
  auto const lasts = this->lasts();
  auto const slack = slack_for(longest_term());
  auto const g = time_to_end();
  // Without trust there is no end of it to be in time for.
  if (!traits_of(for_mutex()).has_expiry) return {std::move(command), g, slack, name};
  // Renewals are sent each third of the ttl and trusted for nine tenths of it: just before one, 0.57 ttl are
  // left. Half the ttl leaves a little for the round trip.
  if (auto const room = lasts / 2 - slack; g > room) {
    if (room < 0ms)
      throw failure(exit_usage,
                    fmt::format("--ttl: {} is too short; 100ms is the least", format_duration(lasts)));
    throw failure(
        exit_usage,
        fmt::format(
            "--grace {} does not fit into --ttl {}: the lock is renewed every {} and trusted for {}, so "
            "at most {} are left to end the command in time. Give --grace {} or less, or --ttl {} or more",
            format_duration(g), format_duration(lasts), format_duration(lasts / 3),
            format_duration(lasts * 9 / 10), format_duration(room), exact_duration(room),
            exact_duration(std::chrono::ceil<std::chrono::seconds>((g + 500ms) * 2))));
  }
  // Trust ends before the limit: hold.cpp has by how much.
  if (hard_limit) {
    auto const trusted = *hard_limit - *hard_limit / 50 - longest_term() / 10;
    auto const room = trusted - slack - *hard_limit / 2;
    if (room < 0ms)
      throw failure(exit_usage, fmt::format("--hard-limit: {} is too short; 100ms is the least",
                                            format_duration(*hard_limit)));
    if (g > room)
      throw failure(
          exit_usage,
          fmt::format("--grace {} does not fit into --hard-limit {}: the command would be told to end before "
                      "half of it. Give --grace {} or less, or a longer limit",
                      format_duration(g), format_duration(*hard_limit), exact_duration(room)));
  }
  return {std::move(command), g, slack, name};
}

}  // namespace rowlock::tool
