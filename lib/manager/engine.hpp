#pragma once
// The parts of a lock_manager, in the order of their dependencies.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stop_token>

#include "base/calls.hpp"
#include "base/hand_on.hpp"
#include "holding/renewer.hpp"
#include "holding/session_pinger.hpp"
#include "holding/watchdog.hpp"
#include "manager/together.hpp"
#include "sessions/connection_pool.hpp"
#include "sessions/events.hpp"
#include "strategy/catalogue.hpp"
#include "waiting/observations.hpp"
#include "waiting/wait_queues.hpp"

namespace rowlock::managing {

struct engine {
  engine(std::shared_ptr<backend::source> source, manager_options o)
      : options(std::move(o)),
        events(options.on_event),
        database(std::move(source), options),
        pool(database, {database.connections(), "connections", 1, options.idle_timeout}),
        session_pool(database,
                     {options.row_lock_connections, "row_lock_connections", 0, options.idle_timeout}),
        traffic(*this),
        wait_queues(database, events, options),
        tables(database.statements()),
        strategies(database.statements()),
        expiries(events),
        renewals(database, pool, strategies, expiries, events, options, [this] { return close_unused(); }),
        pings(strategies, expiries, events, options.reply_timeout, [this] { return close_unused(); }) {}

  sessions::connection_pool& pool_of(strategy s) noexcept {
    return traits(s).owns_session ? session_pool : pool;
  }
  /// @return the time to call it again
  boot_time_point close_unused() noexcept {
    return std::min({pool.close_unused(), session_pool.close_unused(), wait_queues.close_unused()});
  }
  sessions::connection_pool::loan session_to_write(boot_time_point deadline,
                                                   std::stop_token const& stop = {}) {
    return pool.borrow(deadline, stop, boot_time_point::max(), sessions::connection_pool::use::writing);
  }
  boot_time_point reply_deadline() const noexcept { return boot_clock::now() + options.reply_timeout; }

  manager_options const options;
  sessions::events events;
  sessions::database database;
  sessions::connection_pool pool;
  sessions::connection_pool session_pool;  ///< for strategies that own a session
  managing::traffic traffic;
  waiting::wait_queues wait_queues;
  rowlock::strategies::term_tables const tables;
  rowlock::strategies::catalogue const strategies;
  waiting::observations observations;
  holding::watchdog expiries;
  holding::renewer renewals;
  holding::session_pinger pings;
  /// How long hand-offs keep a term in this process. (Some tests set more.)
  std::chrono::milliseconds hand_on_for{50};
  std::chrono::milliseconds confirmed_for = base::confirmed_for;
  std::stop_source closing;
  /// Whether the dispatcher drives all calls that take one name, and the calling thread only waits. (Tests of
  /// blocking calls set it, to test asynchronous ones.)
  inline static std::atomic<bool> dispatches{false};
  base::calls under_way;
  std::atomic<boot_time_point> told_of_quarantine_until{};
  /// The database has accepted a write, so a later refusal (a switch-over, a full disk) can pass.
  std::atomic<bool> has_granted = false;
};

}  // namespace rowlock::managing
