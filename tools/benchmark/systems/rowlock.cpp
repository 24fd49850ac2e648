// rowlock itself, by its public interface alone, with all options as they are by default.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <rowlock/sqlite.hpp>
#include <utility>

#include "systems/databases.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {
namespace {

class rowlock_client : public client {
 public:
  rowlock_client(lock_manager& manager, bool fair) : manager_(manager), fair_(fair) {}

  bool take(std::string const& name, std::stop_token const& stop) override {
    if (!mutex_ || mutex_->name() != name) mutex_.emplace(manager_.make_mutex(name, {.fair = fair_}));
    auto got = mutex_->acquire(stop);
    if (!got && got.status() == acquire_status::cancelled) return false;
    lock_.emplace(*std::move(got));
    return true;
  }
  void give_back() override {
    auto const result = lock_->release();
    // Handed over: others were in the way just now, and the renewer does it.
    if (result != release_result::released && result != release_result::handed_over)
      throw peer_error(fmt::format("release() said {}", to_string(result)));
  }

 private:
  lock_manager& manager_;
  bool fair_;
  std::optional<mutex> mutex_;
  std::optional<held_lock> lock_;
};

/// Takes for reading.
class reading_client : public client {
 public:
  explicit reading_client(lock_manager& manager) : manager_(manager) {}

  bool take(std::string const& name, std::stop_token const& stop) override {
    if (!mutex_ || mutex_->name() != name) mutex_.emplace(manager_.make_shared_mutex(name));
    auto got = mutex_->acquire_shared(stop);
    if (!got && got.status() == acquire_status::cancelled) return false;
    lock_.emplace(*std::move(got));
    return true;
  }
  void give_back() override {
    if (auto const result = lock_->release(); result != release_result::released)
      throw peer_error(fmt::format("release() said {}", to_string(result)));
  }

 private:
  lock_manager& manager_;
  std::optional<shared_mutex> mutex_;
  std::optional<held_lock> lock_;
};

/// Many names at once, all or nothing.
class rowlock_batch_client : public client {
 public:
  explicit rowlock_batch_client(lock_manager& manager) : manager_(manager) {}

  bool take(std::string const& name, std::stop_token const& stop) override {
    std::vector<std::string> names;
    names.reserve(batch_size);
    for (int i = 0; i < batch_size; ++i) names.push_back(fmt::format("{}-{}", name, i));
    auto got = manager_.acquire_all(std::move(names), {}, stop);
    if (!got) return false;
    locks_.emplace(*std::move(got));
    return true;
  }
  void give_back() override {
    if (auto const result = locks_->release(); result != release_result::released)
      throw peer_error(fmt::format("release() said {}", to_string(result)));
  }

 private:
  lock_manager& manager_;
  std::optional<held_locks> locks_;
};

enum class way { plain, fair, batch, reading };

class rowlock_session : public session {
 public:
  rowlock_session(connection_source const& source, strategy how, way w = way::plain, int connections = 0)
      : manager_(source, manager_options{.strategy = how, .connections = connections}), way_(w) {
    manager_.connect();
  }
  std::unique_ptr<client> new_client() override {
    if (way_ == way::reading) return std::make_unique<reading_client>(manager_);
    if (way_ == way::batch) return std::make_unique<rowlock_batch_client>(manager_);
    return std::make_unique<rowlock_client>(manager_, way_ == way::fair);
  }

 private:
  lock_manager manager_;
  way way_;
};

system_entry lease_with(database const& d, int connections) {
  return {fmt::format("lease-{}-{}-connections", d.id, connections),
          fmt::format("lease, {}, connections = {}", d.title, connections), d.id,
          [&d, connections](std::string const& address) {
            return std::make_unique<rowlock_session>(d.source(address), strategy::lease, way::plain,
                                                     connections);
          },
          [&d](std::string const& address) { migrate(d, address); }};
}

system_entry lease_on(database const& d, way w, std::string const& id, std::string const& title) {
  return {fmt::format("{}-{}", id, d.id), fmt::format("{}, {}", title, d.title), d.id,
          [&d, w](std::string const& address) {
            return std::make_unique<rowlock_session>(d.source(address), strategy::lease, w);
          },
          [&d](std::string const& address) { migrate(d, address); }};
}

}  // namespace

void add_rowlock(std::vector<system_entry>& all) {
  for (auto const how : {strategy::lease, strategy::unique_insert, strategy::row_lock})
    for (auto const& each : databases()) {
      if (std::find(each.strategies.begin(), each.strategies.end(), how) == each.strategies.end()) continue;
      all.push_back({fmt::format("{}-{}", to_string(how), each.id),
                     fmt::format("{}, {}", to_string(how), each.title), each.id,
                     [&each, how](std::string const& address) {
                       return std::make_unique<rowlock_session>(each.source(address), how);
                     },
                     [&each](std::string const& address) { migrate(each, address); }});
    }
  for (auto const& each : databases()) {
    all.push_back(lease_on(each, way::fair, "fair", "lease, fair"));
    all.push_back(lease_on(each, way::batch, "all", "acquire_all"));
    all.push_back(lease_on(each, way::plain, "loop", "lease, event loop"));
    all.back().coroutines = true;
    all.push_back(lease_on(each, way::reading, "shared", "shared_mutex, for reading"));
    for (int const n : {1, 2, 4, 8}) all.push_back(lease_with(each, n));
  }
  all.push_back({"lease-postgresql-unflushed", "lease, PostgreSQL, flush=off", "postgresql",
                 [](std::string const& address) {
                   return std::make_unique<rowlock_session>(
                       database_of("postgresql").source(address + " flush=off"), strategy::lease);
                 },
                 [](std::string const& address) { migrate(database_of("postgresql"), address); }});
  all.push_back({"lease-sqlite-full", "lease, SQLite, synchronous=full", "sqlite",
                 [](std::string const& address) {
                   return std::make_unique<rowlock_session>(
                       sqlite::source(address, sqlite::synchronous::full), strategy::lease);
                 },
                 [](std::string const& address) { migrate(database_of("sqlite"), address); }});
}

}  // namespace rowlock::bench
