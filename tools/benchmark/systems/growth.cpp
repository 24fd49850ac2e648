// Leases on PostgreSQL in tables that have many rows already, or many dead versions of one row.
#include <fmt/format.h>

#include <optional>
#include <rowlock/rowlock.hpp>

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

/// Takes one row after the other, all over the table: the same row each time would be in every cache.
class growth_client : public client {
 public:
  growth_client(lock_manager& manager, table_size const& size) : manager_(manager), size_(size) {}
  bool take(std::string const& name, std::stop_token const& stop) override {
    // Held rows are others': there it is a new one.
    auto const& wanted =
        size_.held ? name
                   : (row_ = fmt::format("row-{}", 1 + (next_ += 7919) % static_cast<unsigned>(size_.rows)));
    auto got = manager_.make_mutex(wanted).acquire(stop);
    if (!got) return false;
    lock_.emplace(*std::move(got));
    return true;
  }
  void give_back() override {
    if (lock_->release() != release_result::released) throw peer_error("the lock was lost");
  }

 private:
  lock_manager& manager_;
  table_size const& size_;
  unsigned next_ = 0;
  std::string row_;
  std::optional<held_lock> lock_;
};

class growth_session : public session {
 public:
  growth_session(table_size const& size, std::string const& address)
      : size_(size), manager_(database_of("postgresql").source(address), {.table_prefix = prefix_of(size)}) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<growth_client>(manager_, size_); }

 private:
  table_size const& size_;
  lock_manager manager_;
};

/// One name beside a transaction with an old snapshot, for which the server keeps each dead version of its
/// row.
class snapshot_session : public session {
 public:
  static constexpr int cycles_before = 10'000;
  static constexpr char const* prefix = "bench_snapshot_";

  explicit snapshot_session(std::string const& address)
      : manager_(database_of("postgresql").source(address), {.table_prefix = prefix}), old_(address) {
    old_.run(fmt::format("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM {}locks", prefix));
    pg_connection c(
        address);  // by the functions, and unflushed: a take by the manager may wait for a slow disk
    c.run("SET synchronous_commit = off");
    c.run(
        fmt::format("DO $$ DECLARE mine text; BEGIN FOR i IN 1..{1} LOOP"
                    " SELECT t.term INTO STRICT mine FROM {0}try_acquire('hot', '1 minute') AS t;"
                    " PERFORM {0}release('hot', mine); COMMIT; END LOOP; END $$",
                    prefix, cycles_before));
  }
  std::unique_ptr<client> new_client() override { return std::make_unique<hot_client>(manager_); }

 private:
  class hot_client : public client {
   public:
    explicit hot_client(lock_manager& manager) : mutex_(manager.make_mutex("hot")) {}
    bool take(std::string const&, std::stop_token const& stop) override {
      auto got = mutex_.acquire(stop);
      if (!got) return false;
      lock_.emplace(*std::move(got));
      return true;
    }
    void give_back() override {
      if (lock_->release() != release_result::released) throw peer_error("the lock was lost");
    }

   private:
    rowlock::mutex mutex_;
    std::optional<held_lock> lock_;
  };

  lock_manager manager_;
  pg_connection old_;
};

}  // namespace

void add_growth(std::vector<system_entry>& all) {
  for (auto const& each : table_sizes)
    all.push_back(
        {each.id, each.title, "postgresql",
         [&each](std::string const& address) { return std::make_unique<growth_session>(each, address); },
         [&each](std::string const& address) { fill(each, address); }});
  all.push_back({"old-snapshot", "1 name after 10,000 cycles, beside an old snapshot", "postgresql",
                 [](std::string const& address) { return std::make_unique<snapshot_session>(address); },
                 [](std::string const& address) {
                   migrate(database_of("postgresql"), address, snapshot_session::prefix);
                 }});
}

}  // namespace rowlock::bench
