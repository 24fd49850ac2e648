// Which late release comes next.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "holding/late_releases.hpp"

using namespace rowlock;
using namespace rowlock::holding;
using namespace std::chrono_literals;

namespace {

auto const start = boot_clock::now();

/// What was held.
late_release of(std::string const& name) {
  late_release r{{name, {"term"}}, strategy::lease, 0ms, start + 60s};
  r.next = start;
  return r;
}

/// A take that may come yet.
late_release doubtful(std::string const& name) {
  auto r = of(name);
  r.may_come_until = start + 30s;
  return r;
}

std::vector<std::string> names(late_releases const& all, boot_time_point now) {
  std::vector<std::string> out;
  auto copy = all;
  for (auto const number : all.due(now)) out.push_back(copy.take(number).mapped().which.name);
  return out;
}

using strings = std::vector<std::string>;

}  // namespace

TEST_CASE("late releases: in the order in which they came, those that have failed after the others") {
  late_releases all;
  CHECK(all.empty());
  CHECK(all.next() == boot_time_point::max());
  for (auto const* name : {"a", "b", "c"}) all.add(of(name));
  CHECK(names(all, start) == strings{"a", "b", "c"});
  CHECK(names(all, start - 1ms).empty());
  CHECK(all.next() == start);
  auto a = all.take(all.due(start).front());
  CHECK(names(all, start) == strings{"b", "c"});
  a.mapped().lengthen_pause();
  all.put_back(std::move(a));
  CHECK(names(all, start) == strings{"b", "c", "a"});
  all.none_before(start + 5s);
  CHECK(names(all, start + 4s).empty());
  CHECK(all.next() == start + 5s);
  all.hurry();
  CHECK(names(all, start - 1ms) == strings{"b", "c", "a"});
  auto those = all.take_all();
  CHECK(all.empty());
  all.add(of("d"));
  all.put_back(those);
  CHECK(those.empty());
  CHECK(names(all, start) == strings{"b", "c", "d", "a"});
}

TEST_CASE("late releases: at its end each is due, so that it is dropped") {
  late_releases all;
  auto r = of("a");
  r.next = start + 600s;
  all.add(std::move(r));
  CHECK(names(all, start + 59s).empty());
  CHECK(all.next() == start + 60s);
  CHECK(names(all, start + 60s) == strings{"a"});
}

TEST_CASE("late releases: pauses double, from a fifth of a second to five seconds") {
  auto r = of("a");
  std::vector<std::chrono::milliseconds> pauses;
  for (int i = 0; i < 7; ++i) {
    r.lengthen_pause();
    pauses.push_back(r.pause);
  }
  CHECK(pauses == std::vector<std::chrono::milliseconds>{200ms, 400ms, 800ms, 1600ms, 3200ms, 5s, 5s});
}

TEST_CASE("late releases: what may come yet waits for what was held and came first of its name") {
  late_releases all;
  all.add(doubtful("x"));
  all.add(of("x"));
  all.add(doubtful("x"));
  all.add(doubtful("y"));
  CHECK(names(all, start) == strings{"x", "x", "y"});
  auto const due = all.due(start);
  (void)all.take(due.at(1));
  CHECK(names(all, start) == strings{"x", "x", "y"});
  CHECK(all.due(start) != due);
}

TEST_CASE(
    "late releases: of doubtful takes of a name no more than 64 where there are many; of what was held, "
    "all") {
  late_releases all;
  for (int i = 0; i < 300; ++i) all.add(doubtful("x"));
  CHECK(all.due(start).size() == 256);
  for (int i = 0; i < 80; ++i) all.add(doubtful("y"));
  CHECK(all.due(start).size() == 256 + 64);
  for (int i = 0; i < 80; ++i) all.add(of("z"));
  CHECK(all.due(start).size() == 256 + 64 + 80);
}
