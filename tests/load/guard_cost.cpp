// What transaction::require() adds to a transaction that changes one row:
//
//   rowlock_guard_cost URL [SECONDS [soci]]
//
// Transactions with it and without it take turns, so that whatever else the machine does meets both alike.
// The database must have rowlock's tables; a table rowlock_guard_cost is made there, and dropped at the end.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "guard/program.hpp"

namespace {

using namespace rowlock;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

double median_us(std::vector<double>& times) {
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

test::driver driver_for(std::string const& url) {
  if (url.starts_with("sqlite:")) return test::driver::sqlite3;
  return url.starts_with("mysql:") ? test::driver::connector : test::driver::libpq;
}

struct table {
  explicit table(test::program& on) : p(on) {
    p.run("DROP TABLE IF EXISTS rowlock_guard_cost");
    p.run("CREATE TABLE rowlock_guard_cost (id INTEGER PRIMARY KEY, n BIGINT NOT NULL)");
    p.run("INSERT INTO rowlock_guard_cost VALUES (1, 0)");
  }
  ~table() {
    try {
      p.run("DROP TABLE rowlock_guard_cost");
    } catch (std::exception const& e) {
      std::fprintf(stderr, "the table rowlock_guard_cost is left behind: %s\n", e.what());
    }
  }
  table(table const&) = delete;
  table& operator=(table const&) = delete;
  test::program& p;
};

int measure(std::string const& url, std::chrono::seconds lasts, bool by_soci) {
  lock_manager manager(url);
  auto const held = *manager.make_mutex("guard_cost").acquire();
  auto const p = test::connect_by(by_soci ? test::driver::soci : driver_for(url), url);
  auto const tx = p->view(manager);
  table const counter(*p);
  bool const sqlite = url.starts_with("sqlite:");
  std::vector<double> with;
  std::vector<double> without;
  auto const end = steady_clock::now() + lasts;
  for (int round = 0; steady_clock::now() < end; ++round) {
    bool const guarded = round % 2 == 0;
    auto const start = steady_clock::now();
    p->run(sqlite ? "BEGIN IMMEDIATE" : "START TRANSACTION");
    if (guarded) tx->require(held);
    p->run("UPDATE rowlock_guard_cost SET n = n + 1 WHERE id = 1");
    p->commit();
    auto const took = std::chrono::duration<double, std::micro>(steady_clock::now() - start).count();
    if (round >= 100) (guarded ? with : without).push_back(took);
  }
  if (with.empty()) return 1;
  auto const plain = median_us(without);
  auto const guarded = median_us(with);
  std::printf("medians of %zu: %.0f us without, %.0f us with require: %.2fx\n", with.size(), plain, guarded,
              guarded / plain);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::fputs("usage: rowlock_guard_cost URL [SECONDS [soci]]\n", stderr);
    return 64;
  }
  return measure(argv[1], std::chrono::seconds(argc > 2 ? std::stoi(argv[2]) : 10), argc > 3);
} catch (std::exception const& e) {
  std::fprintf(stderr, "rowlock_guard_cost: %s\n", e.what());
  return 1;
}
