// Migrates in a process of its own: helper sqlite|postgresql|mysql ADDRESS up|down|toggle
// Prints the versions; "toggle" goes up and down, saying "begin" first, until it is killed.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <rowlock/migrator.hpp>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <string>

#include "toy.hpp"

namespace {

rowlock::connection_source source_of(std::string const& kind, std::string const& address) {
  if (kind == "sqlite") return rowlock::sqlite::source(address);
  if (kind == "mysql") return rowlock::mysql::source(address);
  return rowlock::postgresql::source(address);
}

void print(std::vector<int> const& versions) {
  for (int const v : versions) fmt::print("{}\n", v);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  try {
    rowlock::migrator migrator(rowlock::test::with_toy(source_of(argv[1], argv[2])),
                               {.timeout = std::chrono::minutes(10)});
    std::string const what = argv[3];
    if (what == "up") print(migrator.up());
    if (what == "down") print(migrator.down(0, true, true));
    if (what == "toggle") {
      fmt::print("begin\n");
      std::fflush(stdout);
      for (;;) {
        migrator.up();
        migrator.down(0, true, true);
      }
    }
    return 0;
  } catch (std::exception const& e) {
    fmt::print("{}\n", e.what());  // where the test reads
    return 1;
  }
}
