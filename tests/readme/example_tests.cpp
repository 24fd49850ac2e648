#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <rowlock/rowlock.hpp>
#include <string>

#include "support/support.hpp"

namespace rowlock::test {
namespace {

struct outcome {
  std::string output;
  int status = 0;
};

outcome run_example(std::string const& url) {
  FILE* pipe = ::popen(("'" ROWLOCK_README_EXAMPLE "' '" + url + "' 2>&1").c_str(), "re");
  REQUIRE(pipe != nullptr);
  outcome o;
  std::array<char, 1024> buffer{};
  while (auto const got = std::fread(buffer.data(), 1, buffer.size(), pipe))
    o.output.append(buffer.data(), got);
  o.status = ::pclose(pipe);
  return o;
}

TEST_CASE("the README's example <sqlite> takes its locks, or says who has them") {
  scratch_folder const folder;
  auto const url = "sqlite:" + folder.file("locks.db");
  CHECK(run_example(url).status != 0);  // there are no tables yet
  migrator{source_from_url(url)}.up();

  auto const free = run_example(url);
  CHECK(free.status == 0);
  CHECK(free.output == "alone\nmine, token drawn\n");

  lock_manager manager{url};
  auto nightly = manager.make_mutex("nightly");
  auto const mine = nightly.acquire();
  auto const busy = run_example(url);
  CHECK(busy.status != 0);
  CHECK(busy.output.starts_with("alone\nbusy, held on "));
  CHECK(busy.output.find("held on ?") == std::string::npos);
}

}  // namespace
}  // namespace rowlock::test
