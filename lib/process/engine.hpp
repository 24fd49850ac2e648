#pragma once
// The parts that a lock_manager is made of, in the order in which they depend on each other.

#include "process/database.hpp"
#include "process/events.hpp"
#include "process/keeper.hpp"
#include "process/watchdog.hpp"
#include "strategy/row_strategies.hpp"

namespace rowlock::process {

struct engine {
  engine(std::shared_ptr<backend::source> source, manager_options o)
      : options(std::move(o)),
        tell(options.on_event),
        db(std::move(source), options),
        pool(db, options.connections),
        rows(db.statements()),
        taking(db.statements()),
        watch(tell),
        keep(db, watch, tell, options.reply_timeout) {}

  boot_time_point reply_deadline() const noexcept { return boot_clock::now() + options.reply_timeout; }

  manager_options const options;
  events const tell;
  database db;
  connection_pool pool;
  strategies::lock_rows const rows;
  strategies::row_strategies const taking;
  watchdog watch;
  keeper keep;
};

}  // namespace rowlock::process
