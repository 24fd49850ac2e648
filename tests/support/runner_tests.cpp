// What main() says of cases that run side by side, whatever becomes of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

TEST_CASE("each case counts once, also if its process dies") {
  scratch_folder folder;
  child_process doomed{{ROWLOCK_DOOMED, "--jobs", "3", "--results", folder.file("results")}};
  CHECK(doomed.finish() == 1);
  auto says = [&](std::string const& text) { return doomed.output().find(text) != std::string::npos; };
  CHECK(says("CHECK( 1 == 2 )"));
  CHECK(says("FAILED  rowlock_doomed/is killed: its process died of signal 9\n"));
  CHECK(says("FAILED  rowlock_doomed/leaves: its process ended with status 0\n"));
  CHECK(says("FAILED  rowlock_doomed/hangs: has not ended within its time\n"));
  CHECK(doomed.output().ends_with("\n3 passed, 6 failed\n"));

  std::vector<std::string> results;
  std::ifstream file{folder.file("results")};
  for (std::string line; std::getline(file, line);) results.push_back(line);
  std::ranges::sort(results);
  CHECK(results == std::vector<std::string>{"FAILED rowlock_doomed/asserts nothing",
                                            "FAILED rowlock_doomed/crashes", "FAILED rowlock_doomed/fails",
                                            "FAILED rowlock_doomed/hangs", "FAILED rowlock_doomed/is killed",
                                            "FAILED rowlock_doomed/leaves", "ok rowlock_doomed/is alone",
                                            "ok rowlock_doomed/passes", "ok rowlock_doomed/passes, too"});
}

TEST_CASE("no further case begins after one that failed, if that is asked for") {
  for (std::string const jobs : {"1", "2"}) {
    child_process doomed{{ROWLOCK_DOOMED, "--fail-fast", "--jobs", jobs, "--without", "hangs"}};
    CHECK(doomed.finish() == 1);
    CHECK(doomed.output().find("FAILED  rowlock_doomed/fails") != std::string::npos);
    CHECK(doomed.output().find("rowlock_doomed/passes, too") == std::string::npos);
    CHECK(doomed.output().find("rowlock_doomed/is alone") == std::string::npos);
  }
  child_process killed{{ROWLOCK_DOOMED, "--fail-fast", "--jobs", "2", "is"}};
  CHECK(killed.finish() == 1);
  CHECK(killed.output().ends_with("\n0 passed, 1 failed\n"));
}

TEST_CASE("cases can be left out") {
  child_process some{{ROWLOCK_DOOMED, "--without", "s", "--without", "fail", "is"}};
  CHECK(some.finish() == 3);
  child_process good{{ROWLOCK_DOOMED, "--without", "too", "--jobs", "2", "passes"}};
  CHECK(good.finish() == 0);
  CHECK(good.output().ends_with("\n1 passed, 0 failed\n"));
}

}  // namespace
}  // namespace rowlock::test
