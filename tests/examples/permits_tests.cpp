// The examples with locks that several may hold.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "examples/place.hpp"
#include "support/child_process.hpp"

namespace rowlock::test {
namespace {

TEST_CASE_TEMPLATE("configuration: whoever reads it reads one state of it", On, on_sqlite, on_postgresql,
                   on_mariadb, on_mysql) {
  place p(On::kind);
  scratch_folder const folder;
  auto const path = folder.path().string();
  auto const write = [&](std::string const& text) {
    return std::vector<std::string>{ROWLOCK_EXAMPLE_CONFIGURATION, p.url(), path, "write", text};
  };
  std::vector<std::string> const read{ROWLOCK_EXAMPLE_CONFIGURATION, p.url(), path, "read"};
  {
    child_process first(write("0"));
    REQUIRE(first.finish() == 0);
  }
  std::vector<child_process> writers;
  std::vector<child_process> readers;
  for (int i = 1; i <= 4; ++i) {
    writers.emplace_back(write(std::to_string(i)));
    for (int k = 0; k < 3; ++k) readers.emplace_back(read);
  }
  for (auto& w : writers) CHECK(w.finish() == 0);
  for (auto& r : readers) {
    CHECK(r.finish() == 0);
    auto const said = r.output();
    auto const of = said.substr(0, said.find('\n')).substr(std::string("hosts of ").size());
    CHECK(said == "hosts of " + of + "\nports of " + of + "\n");
  }
}

TEST_CASE_TEMPLATE("crawler: never more than two at a time", On, on_sqlite, on_postgresql, on_mariadb,
                   on_mysql) {
  place p(On::kind);
  scratch_folder const folder;
  auto const log = folder.file("log");
  child_process all({"/bin/sh", "-c",
                     "for i in 1 2 3 4 5 6; do \"$0\" \"$1\" example.org 2 a b c >>\"$2\" || echo failed "
                     ">>\"$2\" & done; wait",
                     ROWLOCK_EXAMPLE_CRAWLER, p.url(), log});
  REQUIRE(all.finish() == 0);
  int now = 0;
  int most = 0;
  int pages = 0;
  std::string line;
  for (std::ifstream in(log); std::getline(in, line);) {
    INFO(line);
    CHECK(line != "failed");
    now += line.starts_with("begins") ? 1 : -1;
    pages += line.starts_with("ends") ? 1 : 0;
    most = std::max(most, now);
  }
  CHECK(most <= 2);
  CHECK(pages == 18);
}

}  // namespace
}  // namespace rowlock::test
