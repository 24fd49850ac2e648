// How figures become verdicts.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "histogram.hpp"
#include "results.hpp"

namespace rowlock::bench {
namespace {

system_result measured(std::string const& id, std::vector<double> const& values) {
  system_result r{.id = id, .title = id};
  for (auto const value : values) r.rounds.emplace_back(measurement{.values = {{"p50_us", value}}});
  return r;
}

/// The verdict on "cycle: lease-sqlite-full is 3.5 times ahead of redis-durable".
verdict judged(scenario_result const& result, std::string const& reason = {}) {
  for (auto const& each : judge({result}, bounds(distance::local), reason))
    if (each.line->system == "lease-sqlite-full" && each.line->against == "redis-durable") return each;
  return {};
}

TEST_CASE("bench: the median of the rounds' ratios decides") {
  scenario const cycle{.id = "cycle", .title = "", .metric = "p50_us", .systems = {}};
  scenario_result r{.what = &cycle};
  // Ratios 4, 2 and 5: of the medians themselves it would be 300 : 100.
  r.systems = {measured("lease-sqlite-full", {100, 150, 60}), measured("redis-durable", {400, 300, 300})};
  auto const v = judged(r);
  REQUIRE(v.value);
  CHECK(v.value->median == doctest::Approx(4));
  CHECK(v.value->lower == doctest::Approx(3));
  CHECK(v.value->upper == doctest::Approx(4.5));
  CHECK(v.said == judgement::reached);

  r.systems[0] = measured("lease-sqlite-full", {200, 150, 60});
  CHECK(judged(r).said == judgement::missed);
  CHECK(judged(r, "--anyway").said == judgement::open);
  r.foreign = 0.5;
  CHECK(judged(r).said == judgement::open);
  r.foreign = 0;
  r.systems[1].trouble = "it fell over";
  CHECK(judged(r).said == judgement::open);
  CHECK(judged(r).why.find("it fell over") != std::string::npos);
}

TEST_CASE("bench: a histogram's quantiles are right to within 2 %") {
  histogram h;
  for (std::uint64_t i = 1; i <= 1000; ++i) h.add(i * 1000);
  CHECK(h.nanoseconds(0.5) == doctest::Approx(500'000).epsilon(0.02));
  CHECK(h.nanoseconds(0.99) == doctest::Approx(990'000).epsilon(0.02));
  CHECK(histogram().nanoseconds(0.5) == 0);
}

}  // namespace
}  // namespace rowlock::bench
