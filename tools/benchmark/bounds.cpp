#include "scenarios.hpp"

namespace rowlock::bench {

// In one table for each, so that it can be read beside the text that asks for it.
std::vector<bound> const& bounds(distance servers) {
  static std::vector<bound> const all{
      {"cycle", "lease-sqlite", "redis-durable", "p50_us", rule::ahead, 6},
      {"cycle", "lease-sqlite", "redis", "p50_us", rule::ahead, 3},
      {"cycle", "lease-sqlite-full", "redis-durable", "p50_us", rule::ahead, 3.5},
      {"cycle", "lease-sqlite-full", "zookeeper", "p50_us", rule::ahead, 10},
      {"cycle", "lease-postgresql", "bare-postgresql", "p50_us", rule::ahead, 0.97},
      {"cycle", "lease-postgresql-unflushed", "bare-postgresql-unflushed", "p50_us", rule::ahead, 0.95},
      {"cycle", "lease-postgresql", "redis-durable", "p50_us", rule::ahead, 0.97},
      {"cycle", "lease-postgresql-unflushed", "redis-durable", "p50_us", rule::ahead, 1.45},
      {"cycle", "lease-mariadb", "bare-mariadb", "p50_us", rule::ahead, 0.95},
      {"cycle", "unique_insert-postgresql", "redis-durable", "p50_us", rule::ahead, 0.85},
      {"cycle", "row_lock-postgresql", "advisory", "p50_us", rule::ahead, 0.6},

      {"threads-32", "lease-postgresql", "redis-durable", "per_second", rule::ahead, 1.2},
      {"threads-32", "lease-postgresql-unflushed", "redis-durable", "per_second", rule::ahead, 1.6},
      {"threads-32", "lease-mariadb", "redis-durable", "per_second", rule::ahead, 0.45},
      {"threads-32", "lease-postgresql", "redis-durable", "client_cpu_us", rule::times, 1.0},
      {"threads-32", "lease-mariadb", "redis-durable", "client_cpu_us", rule::times, 1.3},
      {"threads-32", "lease-postgresql", "bare-batch-postgresql", "per_second", rule::ahead, 0.8},
      {"threads-32", "lease-postgresql-unflushed", "bare-batch-postgresql-unflushed", "per_second",
       rule::ahead, 0.8},
      {"threads-32", "lease-mariadb", "bare-batch-mariadb", "per_second", rule::ahead, 0.8},
      {"threads-32", "lease-postgresql", "zookeeper", "per_second", rule::ahead, 5},
      {"threads-32", "lease-mariadb", "zookeeper", "per_second", rule::ahead, 4},

      {"handover-8", "lease-postgresql", "redis-durable-pubsub", "handovers_per_second", rule::ahead, 1.05},
      {"handover-32", "lease-postgresql", "redis-durable-pubsub", "handovers_per_second", rule::ahead, 1.05},
      {"handover-8", "lease-postgresql-unflushed", "redis-durable-pubsub", "handovers_per_second",
       rule::ahead, 1.4},
      {"handover-32", "lease-postgresql-unflushed", "redis-durable-pubsub", "handovers_per_second",
       rule::ahead, 1.4},
      {"handover-8", "lease-postgresql", "zookeeper-queue", "handovers_per_second", rule::ahead, 3},
      {"handover-32", "lease-postgresql", "zookeeper-queue", "handovers_per_second", rule::ahead, 2},
      {"handover-8", "lease-mariadb", "zookeeper-queue", "handovers_per_second", rule::ahead, 2},
      {"handover-32", "lease-mariadb", "zookeeper-queue", "handovers_per_second", rule::ahead, 2},
      {"handover-8", "lease-sqlite-full", "redis-durable-pubsub", "handovers_per_second", rule::ahead, 1.2},
      {"handover-32", "lease-sqlite-full", "redis-durable-pubsub", "handovers_per_second", rule::ahead, 2},
      {"handover-8", "row_lock-postgresql", "redis-pubsub", "handovers_per_second", rule::ahead, 1.2},
      {"handover-32", "row_lock-postgresql", "redis-pubsub", "handovers_per_second", rule::ahead, 2.9},
      {"handover-8", "row_lock-mariadb", "redis-pubsub", "handovers_per_second", rule::ahead, 1.0},
      {"handover-32", "row_lock-mariadb", "redis-pubsub", "handovers_per_second", rule::ahead, 2.0},

      {"hot", "lease-postgresql", "redis-pubsub", "per_second", rule::ahead, 10},
      {"hot", "lease-sqlite", "redis-pubsub", "per_second", rule::ahead, 10},

      {"batch-64", "all-postgresql", "bare-all-postgresql", "p50_us", rule::ahead, 0.9},

      {"reading", "shared-postgresql", "lease-postgresql", "p50_us", rule::times, 1.3},
      {"reading", "shared-mariadb", "lease-mariadb", "p50_us", rule::times, 1.5},
      {"reading", "shared-mysql", "lease-mysql", "p50_us", rule::times, 1.5},
      {"reading", "shared-sqlite", "lease-sqlite", "p50_us", rule::times, 1.3},

      {"transaction", "tx-postgresql-commit", "tx-postgresql", "p50_us", rule::times, 1.25},
      {"transaction", "tx-postgresql-prepared", "tx-postgresql", "p50_us", rule::times, 1.25},
      {"transaction", "tx-mariadb-prepared", "tx-mariadb", "p50_us", rule::times, 1.5},
      {"transaction", "tx-mariadb-commit", "tx-mariadb", "p50_us", rule::times, 1.5},
      {"transaction", "tx-mysql-commit", "tx-mysql", "p50_us", rule::times, 1.6},
      // What rowlock adds to the guard's own statements, sent as text by the bare driver.
      {"transaction", "tx-postgresql-commit", "tx-postgresql-bare", "p50_us", rule::times, 1.1},
      {"transaction", "tx-postgresql-prepared", "tx-postgresql-bare", "p50_us", rule::times, 0.95},
      {"transaction", "tx-mariadb-commit", "tx-mariadb-bare", "p50_us", rule::times, 1.1},
      {"transaction", "tx-mariadb-prepared", "tx-mariadb-bare", "p50_us", rule::times, 0.95},
      {"transaction", "tx-mysql-commit", "tx-mysql-bare", "p50_us", rule::times, 1.1},

      {"waiting-1000", "lease-postgresql", "", "core_percent", rule::at_most, 3},
      {"waiting-1000", "lease-postgresql", "", "connections", rule::at_most, 8},

      {"start-up", "run-sqlite", "", "ms", rule::at_most, 10},
      {"start-up", "run-postgresql", "", "ms", rule::at_most, 22},

      {"growth", "rows-1000000", "rows-10", "p50_us", rule::times, 1.15},
      {"growth", "held-100000", "rows-10", "p50_us", rule::times, 1.15},
      {"growth", "old-snapshot-30000", "old-snapshot-200", "p50_us", rule::times, 1.5},
      {"growth", "old-snapshot-30000", "old-snapshot-row-30000", "p50_us", rule::ahead, 2},

      {"shares-8-empty", "lease-postgresql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-empty", "lease-mariadb", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-empty", "lease-mysql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-empty", "lease-sqlite", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-2ms", "lease-postgresql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-2ms", "lease-mariadb", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-2ms", "lease-mysql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-2ms", "lease-sqlite", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-empty", "lease-postgresql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-empty", "lease-mariadb", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-empty", "lease-mysql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-empty", "lease-sqlite", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-2ms", "lease-postgresql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-2ms", "lease-mariadb", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-2ms", "lease-mysql", "", "smallest_share", rule::at_least, 0.25},
      {"shares-32-2ms", "lease-sqlite", "", "smallest_share", rule::at_least, 0.25},
      {"shares-8-empty", "fair-postgresql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-empty", "fair-mariadb", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-empty", "fair-mysql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-empty", "fair-sqlite", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-2ms", "fair-postgresql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-2ms", "fair-mariadb", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-2ms", "fair-mysql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-8-2ms", "fair-sqlite", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-empty", "fair-postgresql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-empty", "fair-mariadb", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-empty", "fair-mysql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-empty", "fair-sqlite", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-2ms", "fair-postgresql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-2ms", "fair-mariadb", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-2ms", "fair-mysql", "", "largest_to_smallest", rule::at_most, 1.5},
      {"shares-32-2ms", "fair-sqlite", "", "largest_to_smallest", rule::at_most, 1.5},
  };
  static std::vector<bound> const delayed{
      {"cycle", "lease-postgresql", "redis-durable", "p50_us", rule::ahead, 1.4},
      {"threads-32", "lease-postgresql", "redis-durable", "per_second", rule::ahead, 1.25},
      {"threads-32", "lease-postgresql-unflushed", "redis-durable", "per_second", rule::ahead, 2.2},
      {"batch-64", "all-postgresql", "redis-durable-batch", "p50_us", rule::ahead, 1.2},
  };
  return servers == distance::cloud ? delayed : all;
}

}  // namespace rowlock::bench
