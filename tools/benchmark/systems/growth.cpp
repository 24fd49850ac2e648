// Leases on PostgreSQL in tables that have many rows already, or many dead versions of one row.
#include <fmt/format.h>

#include <array>
#include <functional>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <utility>

#include "systems/databases.hpp"
#include "systems/libpq.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

struct table_size {
  char const* id;
  char const* title;
  int rows;
  bool held;  ///< by owners that are far from here
};
constexpr table_size table_sizes[] = {{"rows-10", "10 rows", 10, false},
                                      {"rows-100000", "100,000 rows", 100'000, false},
                                      {"rows-1000000", "1,000,000 rows", 1'000'000, false},
                                      {"held-100000", "100,000 rows, all held", 100'000, true}};

std::string prefix_of(table_size const& size) {
  return fmt::format("bench_{}{}_", size.held ? "held" : "rows", size.rows);
}

void fill(table_size const& size, std::string const& address) {
  auto const prefix = prefix_of(size);
  migrate(database_of("postgresql"), address, prefix);
  pg_connection c(address);
  if (size.held)
    c.run(fmt::format(
        "INSERT INTO {}locks (name, strategy, term, token, owner_host, owner_pid, ttl, acquired_at, "
        "expires_at) "
        "SELECT 'row-' || i, 'lease', md5(i::text), i, 'elsewhere', 4711, 86400000, clock_timestamp(), "
        "clock_timestamp() + interval '1 day' FROM generate_series(1, {}) AS i ON CONFLICT DO NOTHING",
        prefix, size.rows));
  else
    c.run(
        fmt::format("INSERT INTO {}locks (name, strategy, token, expires_at) SELECT 'row-' || i, 'lease', i, "
                    "clock_timestamp() FROM generate_series(1, {}) AS i ON CONFLICT DO NOTHING",
                    prefix, size.rows));
  // Otherwise the server would do these while others are measured.
  c.run(fmt::format("VACUUM (ANALYZE) {}locks", prefix));
  c.run("CHECKPOINT");
}

/// A lease's client that chooses its names.
class growth_client : public client {
 public:
  /// @param choose  what to take, by the name that the measurement would have
  growth_client(lock_manager& manager, std::function<std::string(std::string const&)> choose)
      : manager_(manager), choose_(std::move(choose)) {}
  bool take(std::string const& name, std::stop_token const& stop) override {
    auto got = manager_.make_mutex(choose_(name)).acquire(stop);
    if (!got) return false;
    lock_.emplace(*std::move(got));
    return true;
  }
  void give_back() override {
    if (lock_->release() != release_result::released) throw peer_error("the lock was lost");
  }

 private:
  lock_manager& manager_;
  std::function<std::string(std::string const&)> choose_;
  std::optional<held_lock> lock_;
};

class growth_session : public session {
 public:
  growth_session(table_size const& size, std::string const& address)
      : size_(size), manager_(database_of("postgresql").source(address), {.table_prefix = prefix_of(size)}) {}
  std::unique_ptr<client> new_client() override {
    // One row after the other, all over the table: the same row each time would be in every cache. Held rows
    // are others': there it is a new one.
    return std::make_unique<growth_client>(manager_, [this, next = 0U](std::string const& name) mutable {
      if (size_.held) return name;
      return fmt::format("row-{}", 1 + (next += 7919) % static_cast<unsigned>(size_.rows));
    });
  }

 private:
  table_size const& size_;
  lock_manager manager_;
};

// Beside an old snapshot nothing is flushed: what grows is the server's work, and a flush hides it.

class hot_lease_session : public session {
 public:
  static constexpr char const* prefix = "bench_snapshot_";
  explicit hot_lease_session(std::string const& address)
      : manager_(database_of("postgresql").source(address + " flush=off"), {.table_prefix = prefix}) {}
  std::unique_ptr<client> new_client() override {
    return std::make_unique<growth_client>(manager_, [](std::string const&) { return "hot"; });
  }

 private:
  lock_manager manager_;
};

/// A lock row that is made by hand: a cycle is one UPDATE.
class hot_row_client : public client {
 public:
  explicit hot_row_client(std::string const& address) : connection_(address) {
    connection_.run("SET synchronous_commit = off");
    connection_.prepare("cycle",
                        "UPDATE bench_snapshot_row SET holder = $1, "
                        "expires_at = clock_timestamp() + interval '1 minute' WHERE name = 'hot'");
  }
  bool take(std::string const& name, std::stop_token const&) override {
    std::array<char const*, 1> const values{name.c_str()};
    connection_.execute("cycle", values);
    return true;
  }
  void give_back() override {}

 private:
  pg_connection connection_;
};

class hot_row_session : public session {
 public:
  explicit hot_row_session(std::string address) : address_(std::move(address)) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<hot_row_client>(address_); }

 private:
  std::string address_;
};

/// A session that has gone through some cycles beside an open transaction. The server keeps their dead rows.
class beside_snapshot : public session {
 public:
  beside_snapshot(std::string const& address, std::unique_ptr<session> of, std::string const& table,
                  int cycles)
      : of_(std::move(of)), old_(address) {
    pg_connection(address).run("VACUUM " + table);  // what is dead since the round before
    old_.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM " + table);
    auto const me = of_->new_client();
    for (int i = 0; i < cycles && me->take("me", {}); ++i) me->give_back();
  }
  std::unique_ptr<client> new_client() override { return of_->new_client(); }

 private:
  std::unique_ptr<session> of_;
  pg_connection old_;
};

template <class Session>
void add_beside_snapshot(std::vector<system_entry>& all, std::string const& id, std::string const& line,
                         std::string const& table, std::function<void(std::string const&)> const& prepare) {
  for (int const cycles : {200, 1'000, 5'000, 30'000})
    all.push_back({.id = fmt::format("{}-{}", id, cycles),
                   .title = fmt::format("snapshot {} cycles ago: {}", cycles, line),
                   .place = "postgresql",
                   .open =
                       [table, cycles](std::string const& address) {
                         return std::make_unique<beside_snapshot>(address, std::make_unique<Session>(address),
                                                                  table, cycles);
                       },
                   .prepare = prepare,
                   .line = line,
                   .x = static_cast<double>(cycles)});
}

}  // namespace

void add_growth(std::vector<system_entry>& all) {
  for (auto const& each : table_sizes)
    all.push_back(
        {each.id, each.title, "postgresql",
         [&each](std::string const& address) { return std::make_unique<growth_session>(each, address); },
         [&each](std::string const& address) { fill(each, address); }});
  add_beside_snapshot<hot_lease_session>(
      all, "old-snapshot", "lease", "bench_snapshot_locks", [](std::string const& address) {
        migrate(database_of("postgresql"), address, hot_lease_session::prefix);
      });
  add_beside_snapshot<hot_row_session>(
      all, "old-snapshot-row", "UPDATE", "bench_snapshot_row", [](std::string const& address) {
        pg_connection(address).run(
            "CREATE TABLE IF NOT EXISTS bench_snapshot_row (name text PRIMARY KEY, holder text, expires_at "
            "timestamptz); INSERT INTO bench_snapshot_row (name) VALUES ('hot') ON CONFLICT DO NOTHING");
      });
}

}  // namespace rowlock::bench
