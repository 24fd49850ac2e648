#include "waiting/observations.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace rowlock;
using rowlock::waiting::observations;

namespace {

strategies::term_row row(int n, std::int64_t renewals = 0) {
  strategies::term_row r;
  r.name = std::to_string(n);
  r.term = {"term of " + r.name};
  r.renewals = renewals;
  return r;
}

}  // namespace

TEST_CASE("a renewal, and another incarnation, begin another observation") {
  observations seen;
  auto const first = seen.since(row(1), 1);
  CHECK(seen.since(row(1), 1) == first);
  auto const renewed = seen.since(row(1, 1), 1);
  CHECK(renewed > first);
  CHECK(seen.since(row(1, 1), 2) > renewed);
}

TEST_CASE("10,000 names are watched, and none ends the watch of another one") {
  constexpr int names = 10'000;
  observations seen;
  std::vector<boot_time_point> since;
  for (int n = 0; n < names; ++n) since.push_back(seen.since(row(n), 1));
  bool same = true;
  for (int n = 0; n < names; ++n) same = same && seen.since(row(n), 1) == since[static_cast<std::size_t>(n)];
  CHECK(same);
}
