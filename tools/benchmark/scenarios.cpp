#include "scenarios.hpp"

#include <fmt/format.h>

#include <utility>

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;
using ids = std::vector<std::string>;

ids const every_strategy{
    "lease-postgresql",         "lease-mariadb",         "lease-mysql",         "lease-sqlite",
    "unique_insert-postgresql", "unique_insert-mariadb", "unique_insert-mysql", "unique_insert-sqlite",
    "row_lock-postgresql",      "row_lock-mariadb",      "row_lock-mysql"};
ids const durable_peers{"redis-durable", "zookeeper", "etcd"};

ids operator+(ids left, ids const& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// What nothing can be faster than, on this machine and at this time.
scenario floors() {
  return {
      .id = "floor",
      .title = "what no lock can be faster than: a round trip, a flush",
      .plan = {},
      .metric = "p50_us",
      .systems = {"floor-loopback", "floor-overwrite", "floor-append", "floor-postgresql", "floor-mariadb"}};
}

scenario cycle() {
  return {.id = "cycle",
          .title = "take and give back, 1 client, nobody else wants it",
          .plan = {},
          .metric = "p50_us",
          .systems = every_strategy + ids{"lease-sqlite-full", "lease-postgresql-unflushed"} + durable_peers +
                     ids{"redis", "advisory", "get_lock-mariadb", "get_lock-mysql", "bare-postgresql",
                         "bare-postgresql-unflushed", "bare-mariadb", "bare-mysql"},
          .plot = "cycle"};
}

/// One process, each thread has a name of its own.
scenario threads(int n) {
  return {.id = fmt::format("threads-{}", n),
          .title = fmt::format("{} threads of one process, a name each", n),
          .plan = {.threads = n},
          .metric = "per_second",
          .systems = ids{"lease-postgresql", "lease-postgresql-unflushed", "lease-mariadb", "lease-mysql",
                         "lease-sqlite", "bare-postgresql", "bare-mariadb", "bare-batch-postgresql",
                         "bare-batch-postgresql-unflushed", "bare-batch-mariadb"} +
                     durable_peers + ids{"redis"},
          .plot = "threads",
          .x = static_cast<double>(n),
          .long_only = n != 32};
}

ids const for_one_name{"lease-postgresql",
                       "lease-postgresql-unflushed",
                       "lease-mariadb",
                       "lease-mysql",
                       "lease-sqlite",
                       "lease-sqlite-full",
                       "row_lock-postgresql",
                       "row_lock-mariadb",
                       "row_lock-mysql",
                       "redis-pubsub",
                       "redis-durable-pubsub",
                       "zookeeper-queue",
                       "etcd-lock",
                       "bare-queue-postgresql",
                       "bare-queue-postgresql-unflushed",
                       "advisory",
                       "get_lock-mariadb"};

/// So many processes want one name.
scenario handover(int n) {
  return {.id = fmt::format("handover-{}", n),
          .title = fmt::format("hand-overs of one name among {} processes", n),
          .plan = {.processes = n, .one_name = true, .lasts = 1000ms},
          .metric = "handovers_per_second",
          .systems = for_one_name,
          .plot = "handover",
          .x = static_cast<double>(n),
          .long_only = n != 8 && n != 32};
}

scenario hot() {
  return {.id = "hot",
          .title = "one name, 2 processes with 4 threads each",
          .plan = {.processes = 2, .threads = 4, .one_name = true, .lasts = 1000ms},
          .metric = "per_second",
          .systems = {"lease-postgresql", "lease-mariadb", "lease-sqlite", "bare-queue-postgresql",
                      "redis-pubsub", "redis-durable-pubsub", "zookeeper-queue"}};
}

scenario shares(int n, std::chrono::microseconds section) {
  auto const inside = section == 0us ? "empty" : "2ms";
  return {.id = fmt::format("shares-{}-{}", n, inside),
          .title = fmt::format("shares of {} processes that want one name, section {}", n, inside),
          .plan = {.processes = n, .one_name = true, .section = section},
          .metric = "smallest_share",
          .systems = {"lease-postgresql", "lease-mariadb", "lease-mysql", "lease-sqlite", "fair-postgresql",
                      "fair-mariadb", "fair-mysql", "fair-sqlite", "row_lock-postgresql", "row_lock-mariadb",
                      "redis-durable-pubsub", "zookeeper-queue"},
          .plot = "shares",
          .x = static_cast<double>(n),
          .once = 10s};
}

scenario batch() {
  return {.id = "batch-64",
          .title = "64 names at once, all or nothing; a cycle is all of them",
          .plan = {},
          .metric = "p50_us",
          .systems = {"all-postgresql", "all-mariadb", "all-mysql", "all-sqlite", "bare-all-postgresql",
                      "redis-durable-batch", "redis-batch"}};
}

/// How many connections are of use: what backend::source::best_connections() says.
scenario connections(int threads) {
  std::vector<std::string> systems;
  for (auto const* database : {"postgresql", "mariadb", "mysql", "sqlite"})
    for (int const n : {1, 2, 4, 8}) systems.push_back(fmt::format("lease-{}-{}-connections", database, n));
  return {.id = fmt::format("connections-{}", threads),
          .title = fmt::format("{} threads, a name each, with more or fewer connections", threads),
          .plan = {.threads = threads},
          .metric = "per_second",
          .systems = std::move(systems),
          .long_only = true};
}

scenario reading() {
  ids systems;
  for (auto const* database : {"postgresql", "mariadb", "mysql", "sqlite"}) {
    systems.push_back(fmt::format("shared-{}", database));
    systems.push_back(fmt::format("lease-{}", database));
  }
  return {.id = "reading",
          .title = "take for reading and give back, beside a lease",
          .plan = {},
          .metric = "p50_us",
          .systems = std::move(systems)};
}

scenario transaction() {
  return {.id = "transaction",
          .title = "a transaction that changes one row, with and without a guard",
          .plan = {},
          .metric = "p50_us",
          .systems = {"tx-postgresql", "tx-postgresql-require", "tx-postgresql-commit", "tx-postgresql-bare",
                      "tx-postgresql-prepared", "tx-mariadb", "tx-mariadb-require", "tx-mariadb-commit",
                      "tx-mariadb-bare", "tx-mariadb-prepared", "tx-mysql", "tx-mysql-require",
                      "tx-mysql-commit", "tx-mysql-bare"}};
}

scenario waiting(int n) {
  return {.id = fmt::format("waiting-{}", n),
          .title = fmt::format("{} threads of one process wait for 100 names that another process holds", n),
          .how = method::waiting,
          .plan = {.threads = n},
          .metric = "core_percent",
          .systems = {"lease-postgresql", "lease-mariadb", "lease-sqlite"},
          .plot = "waiting",
          .x = static_cast<double>(n),
          .long_only = n != 1000,
          .once = 20s};
}

scenario loop() {
  return {.id = "loop-100",
          .title = "100 coroutines of one event loop, or 8 threads that block, want one name, section 2 ms",
          .how = method::loop,
          .plan = {.threads = 100, .one_name = true, .section = 2ms, .lasts = 2000ms},
          .metric = "per_second",
          .systems = {"loop-postgresql", "loop-mariadb", "loop-sqlite", "lease-postgresql", "lease-mariadb",
                      "lease-sqlite"}};
}

scenario growth() {
  return {.id = "growth",
          .title = "take and give back in tables with many rows, or with many dead versions of one",
          .plan = {},
          .metric = "p50_us",
          .systems = {"rows-10", "rows-100000", "rows-1000000", "held-100000", "old-snapshot-200",
                      "old-snapshot-1000", "old-snapshot-5000", "old-snapshot-30000", "old-snapshot-row-200",
                      "old-snapshot-row-1000", "old-snapshot-row-5000", "old-snapshot-row-30000"},
          .plot = "growth"};
}

scenario start_up() {
  return {.id = "start-up",
          .title = "a command under a lock: rowlock run NAME -- true",
          .how = method::command,
          .plan = {},
          .metric = "ms",
          .systems = {"run-sqlite", "run-postgresql", "run-mariadb", "libraries", "flock"}};
}

scenario syscalls() {
  return {
      .id = "syscalls",
      .title = "system calls of the client for one cycle (strace -c of 1,000 of them)",
      .how = method::syscalls,
      .plan = {},
      .metric = "calls",
      .systems = {"lease-postgresql", "lease-mariadb", "lease-mysql", "lease-sqlite", "row_lock-postgresql",
                  "row_lock-mariadb", "row_lock-mysql", "bare-postgresql", "bare-mariadb", "redis"},
      .once = 1s};
}

/// The same, by these systems alone, and without a picture.
scenario delayed(scenario what, ids systems) {
  what.systems = std::move(systems);
  what.plot.clear();
  return what;
}

}  // namespace

std::vector<scenario> const& scenarios(distance servers) {
  static std::vector<scenario> const all{
      floors(),       cycle(),        threads(1),      threads(2),      threads(4),     threads(8),
      threads(16),    threads(32),    handover(2),     handover(4),     handover(8),    handover(16),
      handover(32),   hot(),          batch(),         reading(),       connections(4), connections(32),
      transaction(),  waiting(100),   waiting(300),    waiting(1000),   growth(),       start_up(),
      shares(8, 0us), shares(8, 2ms), shares(32, 0us), shares(32, 2ms), loop(),         syscalls()};
  static std::vector<scenario> const far{
      delayed(cycle(),
              {"lease-postgresql", "lease-postgresql-unflushed", "bare-postgresql", "redis-durable"}),
      delayed(threads(32),
              {"lease-postgresql", "lease-postgresql-unflushed", "lease-mariadb", "redis-durable"}),
      delayed(batch(), {"all-postgresql", "redis-durable-batch"})};
  return servers == distance::cloud ? far : all;
}

bool higher_is_better(std::string const& metric) {
  return metric == "per_second" || metric == "handovers_per_second" || metric == "smallest_share";
}

}  // namespace rowlock::bench
