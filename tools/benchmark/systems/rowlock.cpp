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
  explicit rowlock_client(lock_manager& manager) : manager_(manager) {}

  bool take(std::string const& name, std::stop_token const& stop) override {
    if (!mutex_ || mutex_->name() != name) mutex_.emplace(manager_.make_mutex(name));
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
  std::optional<mutex> mutex_;
  std::optional<held_lock> lock_;
};

class rowlock_session : public session {
 public:
  rowlock_session(connection_source const& source, strategy how)
      : manager_(source, manager_options{.strategy = how}) {
    manager_.connect();
  }
  std::unique_ptr<client> new_client() override { return std::make_unique<rowlock_client>(manager_); }

 private:
  lock_manager manager_;
};

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
  all.push_back({"lease-sqlite-normal", "lease, SQLite, synchronous=normal", "sqlite",
                 [](std::string const& address) {
                   return std::make_unique<rowlock_session>(
                       sqlite::source(address, sqlite::synchronous::normal), strategy::lease);
                 },
                 [](std::string const& address) { migrate(database_of("sqlite"), address); }});
}

}  // namespace rowlock::bench
