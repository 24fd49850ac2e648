// The example of a lock over three databases.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "examples/place.hpp"
#include "rowlock/rowlock.hpp"
#include "support/child_process.hpp"

namespace rowlock::test {
namespace {

TEST_CASE(
    "publisher: one after the other, each with a higher token, also when one of three databases is gone") {
  place one(kind::postgresql);
  place two(kind::mariadb);
  place three(kind::sqlite);
  {
    lock_manager a(one.url());
    lock_manager b(two.url());
    lock_manager c(three.url());
    quorum({&a, &b, &c}).init(std::chrono::minutes(1));
  }
  scratch_folder const folder;
  auto const by = [&](std::string const& url, std::string const& text) {
    return std::vector<std::string>{ROWLOCK_EXAMPLE_PUBLISHER, one.url(), two.url(), url,
                                    folder.path().string(),    text};
  };
  std::vector<child_process> all;
  for (int i = 0; i < 4; ++i) all.emplace_back(by(three.url(), std::to_string(i)));
  for (auto& p : all) {
    CHECK(p.finish() == 0);
    INFO(p.output());
  }
  child_process last(by("sqlite:" + folder.file("..") + "/missing.db", "last"));
  CHECK(last.finish() == 0);
  using files = std::filesystem::directory_iterator;
  CHECK(std::distance(files(folder.path()), files()) == 5);
}

}  // namespace
}  // namespace rowlock::test
