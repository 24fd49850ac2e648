#include <fmt/format.h>

#include <map>
#include <rowlock/error.hpp>
#include <rowlock/lock_manager.hpp>

#include "api/asynchronous.hpp"
#include "api/mutex_state.hpp"
#include "api/semaphore_state.hpp"
#include "base/deadline.hpp"
#include "manager/member.hpp"
#include "strategy/permits.hpp"

namespace rowlock {
namespace {

void check(manager_options const& o) {
  using namespace std::chrono_literals;
  auto const require = [](bool good, std::string const& message) {
    if (!good) throw error(errc::invalid_argument, message);
  };
  require(o.connections >= 0 && o.connections <= 1000,
          fmt::format("{} connections: 0 to 1000", o.connections));
  require(o.row_lock_connections >= 1 && o.row_lock_connections <= 1000,
          fmt::format("{} connections for row locks: 1 to 1000", o.row_lock_connections));
  require(o.idle_timeout >= 10ms && o.idle_timeout <= 24h,
          fmt::format("idle_timeout of {} ms is out of range: 10 ms to 24 h", o.idle_timeout.count()));
  require(o.reply_timeout >= 10ms && o.reply_timeout <= 1h,
          fmt::format("reply_timeout of {} ms is out of range: 10 ms to 1 h", o.reply_timeout.count()));
  require(o.release_timeout >= 10ms && o.release_timeout <= 1h,
          fmt::format("release_timeout of {} ms is out of range: 10 ms to 1 h", o.release_timeout.count()));
}

void require_no_strategy(std::string const& name, mutex_options const& o) {
  if (o.strategy)
    throw error(
        errc::invalid_argument,
        fmt::format("'{}': shared_mutex and semaphore have strategies of their own: leave it out", name));
}

}  // namespace

lock_manager::lock_manager(connection_source const& source, manager_options options) {
  check(options);
  manager_ = managing::manager::make(source.implementation(), std::move(options));
}

// The pointer stays: while the process ends, other threads might use a static lock_manager after its end. The
// manager is kept then.
lock_manager::~lock_manager() { manager_->close(); }

// Each call copies the pointer, because a hook can destroy *this meanwhile.
void lock_manager::connect() {
  auto const m = manager_;
  m->connect();
}

mutex lock_manager::make_mutex(std::string name, mutex_options options) {
  return mutex(std::make_unique<basic_mutex::state>(
      manager_, manager_->spec(std::move(name), std::move(options), false)));
}

recursive_mutex lock_manager::make_recursive_mutex(std::string name, mutex_options options) {
  return recursive_mutex(std::make_unique<basic_mutex::state>(
      manager_, manager_->spec(std::move(name), std::move(options), true)));
}

shared_mutex lock_manager::make_shared_mutex(std::string name, mutex_options options) {
  require_no_strategy(name, options);
  options.strategy = strategy::shared;
  using kind = managing::permit_spec::kind;
  auto const part = [&](kind what, std::int64_t units) {
    return std::make_unique<basic_mutex::state>(
        manager_,
        manager_->spec(name, options, false, managing::permit_spec{what, units, strategies::all_units}));
  };
  return {part(kind::writer, strategies::all_units), part(kind::reader, 1)};
}

semaphore lock_manager::make_semaphore(std::string name, std::optional<std::int64_t> limit,
                                       mutex_options options) {
  require_no_strategy(name, options);
  options.strategy = strategy::semaphore;
  // Terms, not threads, tell units apart: a thread can take more units.
  if (std::holds_alternative<calling_thread>(options.owner)) options.owner = each_acquire{};
  auto spec =
      manager_->spec(std::move(name), std::move(options), false, managing::permit_spec{.limit = limit});
  return semaphore(std::make_shared<semaphore::state>(manager_, std::move(spec)));
}

// The manager sorts by name. The result has the order of the caller's list.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the public functions move theirs
acquisition_of_all lock_manager::acquire_all(std::vector<std::string> names, mutex_options options,
                                             managing::wait_policy const& wait_policy, std::stop_token stop) {
  auto const m = manager_;
  auto const order = names;
  auto const specs = m->specs(std::move(names), options);
  std::map<std::string_view, std::size_t> place;
  for (std::size_t i = 0; i < specs.size(); ++i) place.emplace(specs[i].name, i);
  std::vector<held_lock> locks;
  locks.reserve(order.size());
  auto came = m->acquire_all(specs, wait_policy, std::move(stop));
  if (came.won.empty()) return {came.why, std::move(came.busy), std::move(came.holder)};
  // No allocation from here on: an exception would leave locks without a handle.
  for (auto const& name : order) locks.push_back(held_lock(m, std::move(came.won[place.find(name)->second])));
  return held_locks(std::move(locks));
}

acquisition_of_all lock_manager::try_acquire_all(std::vector<std::string> names, mutex_options options) {
  return acquire_all(std::move(names), std::move(options), managing::wait_policy{.one_attempt = true}, {});
}

acquisition_of_all lock_manager::acquire_all(std::vector<std::string> names, mutex_options options,
                                             std::stop_token stop) {
  return acquire_all(std::move(names), std::move(options), managing::wait_policy{}, std::move(stop));
}

acquisition_of_all lock_manager::try_acquire_all_for(std::vector<std::string> names,
                                                     std::chrono::nanoseconds timeout, mutex_options options,
                                                     std::stop_token stop) {
  return acquire_all(std::move(names), std::move(options),
                     managing::wait_policy{.deadline = base::deadline_after(timeout)}, std::move(stop));
}

async_start<acquisition_of_all> lock_manager::async_all(std::vector<std::string> const& names,
                                                        mutex_options const& options, async_wait how) const {
  return take_all_asynchronously(manager_, names, options, how);
}

void lock_manager::close_with(executor where, std::unique_ptr<async_handler<bool>> whom) {
  auto const m = manager_;
  m->close_later(std::move(where), std::move(whom));
}

std::vector<lock_info> lock_manager::list(list_options const& options) {
  auto const m = manager_;
  return m->list(options);
}

std::optional<lock_info> lock_manager::find(std::string const& name) {
  auto const m = manager_;
  return m->find(name);
}

bool lock_manager::renew(detached_lock const& lock) {
  auto const m = manager_;
  return m->renew(lock);
}

bool lock_manager::release(detached_lock const& lock) {
  auto const m = manager_;
  return m->release(lock);
}

bool lock_manager::revoke(std::string const& name, revoke_mode mode, term_id const& only) {
  auto const m = manager_;
  return m->revoke(name, mode, only);
}

}  // namespace rowlock

namespace rowlock::managing {

member::member(lock_manager const& m) : manager_(m.manager_) {}

}  // namespace rowlock::managing
