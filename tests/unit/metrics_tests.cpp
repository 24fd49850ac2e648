#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <rowlock/metrics.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/prometheus_text.hpp"
#include "support/support.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

std::string const acquire = "rowlock_acquire_duration_seconds";

std::string bucket(std::string const& le) { return acquire + "_bucket{le=\"" + le + "\"}"; }

/// The buckets of a histogram in their order, as they are written.
std::vector<double> buckets(std::string const& text, std::string const& histogram) {
  std::vector<double> all;
  for (auto at = text.find(histogram + "_bucket"); at != text.npos;
       at = text.find(histogram + "_bucket", at + 1))
    all.push_back(std::stod(text.substr(text.find("} ", at) + 2)));
  return all;
}

}  // namespace

TEST_CASE("metrics: each kind of event is counted where it belongs, and nowhere else") {
  metrics m;
  auto const tell = m.observer();
  auto const nothing = m.prometheus();
  std::vector<std::pair<event, std::string>> const all{
      {{.kind = event_kind::taken}, "rowlock_acquisitions_total"},
      {{.kind = event_kind::waited, .term = "t"}, "rowlock_waits_total{outcome=\"taken\"}"},
      {{.kind = event_kind::waited}, "rowlock_waits_total{outcome=\"given up\"}"},
      {{.kind = event_kind::renewed}, "rowlock_renewals_total"},
      {{.kind = event_kind::released}, "rowlock_releases_total"},
      {{.kind = event_kind::error}, "rowlock_errors_total"},
      {{.kind = event_kind::lost, .loss = loss_reason::expired}, "rowlock_losses_total{reason=\"expired\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::taken_over},
       "rowlock_losses_total{reason=\"taken over\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::revoked}, "rowlock_losses_total{reason=\"revoked\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::row_gone},
       "rowlock_losses_total{reason=\"row gone\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::database_unreachable},
       "rowlock_losses_total{reason=\"database unreachable\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::forked}, "rowlock_losses_total{reason=\"forked\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::session_ended},
       "rowlock_losses_total{reason=\"session ended\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::read_only},
       "rowlock_losses_total{reason=\"read-only\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::row_locked},
       "rowlock_losses_total{reason=\"row locked\"}"},
      {{.kind = event_kind::lost, .loss = loss_reason::suspended},
       "rowlock_losses_total{reason=\"suspended\"}"}};
  for (auto const& [e, series] : all) CHECK(metric_in(nothing, series) == 0);
  // So often each that two which were mixed up would differ.
  int times = 0;
  for (auto const& [e, series] : all) {
    ++times;
    for (int i = 0; i < times; ++i) tell(e);
  }
  auto const text = m.prometheus();
  times = 0;
  for (auto const& one : all) CHECK_MESSAGE(metric_in(text, one.second) == ++times, one.second);
}

TEST_CASE("C88: metrics: held locks and refused calls are told apart by the program's label") {
  metrics m;
  auto const tell = m.observer();
  CHECK(metric_in(m.prometheus(), "rowlock_locks_held{label=\"\"}") == 0);
  for (int i = 0; i < 3; ++i) tell({.kind = event_kind::taken, .label = "billing"});
  tell({.kind = event_kind::ended, .label = "billing"});
  tell({.kind = event_kind::taken});
  tell({.kind = event_kind::refused, .message = "contended", .label = "billing"});
  auto const text = m.prometheus();
  CHECK(metric_in(text, "rowlock_locks_held{label=\"billing\"}") == 2);
  CHECK(metric_in(text, "rowlock_locks_held{label=\"\"}") == 1);
  CHECK(metric_in(text, "rowlock_refusals_total{label=\"billing\",outcome=\"contended\"}") == 1);
}

TEST_CASE("metrics: a duration counts in its bucket and all above; bounds belong to theirs") {
  metrics m;
  auto const tell = m.observer();
  for (std::chrono::nanoseconds const d : {-1ns, 0ns, std::chrono::nanoseconds(1ms), 1'000'001ns,
                                           std::chrono::nanoseconds(90s), std::chrono::nanoseconds(2h)})
    tell({.kind = event_kind::taken, .duration = d});
  auto const text = m.prometheus();
  CHECK(metric_in(text, bucket("0.001")) == 3);
  CHECK(metric_in(text, bucket("0.002")) == 4);
  CHECK(metric_in(text, bucket("60")) == 4);
  CHECK(metric_in(text, bucket("300")) == 5);
  CHECK(metric_in(text, bucket("1800")) == 5);
  CHECK(metric_in(text, bucket("+Inf")) == 6);
  CHECK(metric_in(text, acquire + "_count") == 6);
  CHECK(metric_in(text, acquire + "_sum") == doctest::Approx(0.002000001 + 90 + 7200).epsilon(1e-12));
}

TEST_CASE("metrics: threads count while others read; nothing is lost, no number falls, each moment agrees") {
  constexpr int threads = 4;
  constexpr int rounds = 100'000;
  metrics m;
  std::atomic<int> counting{threads};
  std::vector<std::jthread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, tell = m.observer()] {
      for (int i = 0; i < rounds; ++i) {
        tell({.kind = event_kind::taken, .duration = std::chrono::milliseconds(i % 700)});
        tell({.kind = event_kind::lost, .loss = loss_reason::expired});
        tell({.kind = event_kind::released, .duration = 1ms});
      }
      --counting;
    });
  std::vector<double> before;
  double sum_before = 0;
  bool sound = true;
  do {
    auto const text = m.prometheus();
    auto const now = buckets(text, acquire);
    sound = sound && now.size() == 18 && std::is_sorted(now.begin(), now.end()) &&
            now.back() == metric_in(text, acquire + "_count") &&
            now.back() == metric_in(text, "rowlock_acquisitions_total") &&
            metric_in(text, acquire + "_sum") >= sum_before;
    for (std::size_t i = 0; i < before.size() && sound; ++i) sound = now[i] >= before[i];
    sum_before = metric_in(text, acquire + "_sum");
    before = now;
  } while (counting > 0 && sound);
  CHECK(sound);
  all.clear();
  auto const text = m.prometheus();
  CHECK(metric_in(text, "rowlock_acquisitions_total") == threads * rounds);
  CHECK(metric_in(text, "rowlock_releases_total") == threads * rounds);
  CHECK(metric_in(text, "rowlock_losses_total{reason=\"expired\"}") == threads * rounds);
}

TEST_CASE("metrics: several observers count together, and outlive what they were made by") {
  std::function<void(event const&)> last;
  {
    metrics m;
    auto const one = m.observer();
    last = m.observer();
    one({.kind = event_kind::error});
    last({.kind = event_kind::error});
    CHECK(metric_in(m.prometheus(), "rowlock_errors_total") == 2);
  }
  last({.kind = event_kind::error});
}

TEST_CASE("prometheus text: help, type and samples; labels and help are escaped, help's quotes are not") {
  base::prometheus_text out;
  out.metric("a_total", "counter", "says \"a\\b\"\nand goes on");
  out.sample(1);
  out.sample(2.5, {{"x", "quote \" backslash \\ newline \n \xc3\xa9"}, {"y", ""}});
  out.metric("b", "gauge", "flag");
  out.sample(true);
  out.sample_of("_more", {}, std::uint64_t{18446744073709551615U});
  CHECK(std::move(out).text() ==
        "# HELP a_total says \"a\\\\b\"\\nand goes on\n"
        "# TYPE a_total counter\n"
        "a_total 1\n"
        "a_total{x=\"quote \\\" backslash \\\\ newline \\n \xc3\xa9\",y=\"\"} 2.5\n"
        "# HELP b flag\n"
        "# TYPE b gauge\n"
        "b 1\n"
        "b_more 18446744073709551615\n");
}
