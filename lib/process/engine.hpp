#pragma once
// The parts that a lock_manager is made of, in the order in which they depend on each other.

#include <atomic>
#include <stop_token>

#include "process/calls.hpp"
#include "process/database.hpp"
#include "process/events.hpp"
#include "process/keeper.hpp"
#include "process/observations.hpp"
#include "process/session_keeper.hpp"
#include "process/watchdog.hpp"
#include "strategy/row_strategies.hpp"

namespace rowlock::process {

struct engine {
  engine(std::shared_ptr<backend::source> source, manager_options o)
      : options(std::move(o)),
        tell(options.on_event),
        db(std::move(source), options),
        pool(db, options.connections, "connections"),
        row_sessions(db, options.row_lock_connections, "row_lock_connections"),
        rows(db.statements()),
        taking(db.statements()),
        row_locks(db.statements()),
        watch(tell),
        keep(db, pool, watch, tell, options),
        sessions(db, watch, tell, options.reply_timeout) {}

  /// Where a session for this strategy comes from.
  connection_pool& pool_of(strategy how) noexcept { return how == strategy::row_lock ? row_sessions : pool; }
  boot_time_point reply_deadline() const noexcept { return boot_clock::now() + options.reply_timeout; }

  manager_options const options;
  events tell;
  database db;
  connection_pool pool;
  connection_pool row_sessions;  ///< one for each row lock that is held or waited for
  strategies::lock_rows const rows;
  strategies::row_strategies const taking;
  strategies::row_lock const row_locks;
  observations seen;
  watchdog watch;
  keeper keep;
  session_keeper sessions;
  std::stop_source closing;  ///< nobody waits any more, and nothing is taken any more
  calls under_way;
  /// That the database has taken our writes once: if it refuses them now, that may end (a switch-over, a full
  /// disk).
  std::atomic<bool> has_granted = false;
};

}  // namespace rowlock::process
