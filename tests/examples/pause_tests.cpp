// What tools/demo-pause shows, for some seconds.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "examples/place.hpp"
#include "support/child_process.hpp"

namespace rowlock::test {
namespace {

struct numbers {
  int pauses = 0;
  int acknowledged = 0;
  int found = 0;
  int refused = 0;
  int in_doubt = 0;
};

std::map<std::string, numbers> numbers_in(std::string const& file) {
  std::map<std::string, numbers> all;
  std::ifstream lines(file);
  std::string mode;
  for (numbers n; lines >> mode >> n.pauses >> n.acknowledged >> n.found >> n.refused >> n.in_doubt;)
    all[mode] = n;
  return all;
}

TEST_CASE_TEMPLATE("workers are paused between read and write: a lease alone loses updates, require() none",
                   On, on_sqlite, on_postgresql, on_mariadb, on_mysql) {
  scratch_folder const folder;
  std::map<std::string, numbers> all;
  auto const enough = [&] {
    return std::ranges::all_of(all,
                               [](auto const& each) {
                                 auto const& n = each.second;
                                 return n.pauses >= 1 &&
                                        (each.first == "require" || n.found < n.acknowledged);
                               }) &&
           all.at("require").acknowledged >= 20 && all.at("require").refused >= 1;
  };
  // For longer if the machine is too busy for what is to be seen.
  for (auto const* seconds : {"18", "90"}) {
    place p(On::kind);
    child_process demo({ROWLOCK_DEMO_PAUSE, "--seconds", seconds, "--counters", "2", "--title", "it",
                        "--picture", folder.file("pause.svg"), "--results", folder.file("results"), p.url()});
    auto const status = demo.finish();
    INFO(demo.output());
    CHECK(status == 0);
    all = numbers_in(folder.file("results"));
    REQUIRE(all.contains("lease"));
    REQUIRE(all.contains("require"));
    auto const& guarded = all.at("require");
    CHECK(guarded.found >= guarded.acknowledged);
    CHECK(guarded.found <= guarded.acknowledged + guarded.in_doubt);
    if (enough()) break;
  }
  for (auto const& each : all) {
    CAPTURE(each.first);
    CHECK(each.second.pauses >= 1);
    if (each.first != "require") CHECK(each.second.found < each.second.acknowledged);
  }
  CHECK(all.at("require").acknowledged >= 20);
  CHECK(all.at("require").refused >= 1);

  std::string start;
  std::ifstream picture(folder.file("pause.svg"));
  std::getline(picture, start);
  CHECK(start.starts_with("<svg "));
}

}  // namespace
}  // namespace rowlock::test
