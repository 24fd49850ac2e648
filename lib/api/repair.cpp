#include <rowlock/repair.hpp>

#include <rowlock/error.hpp>

#include "base/text.hpp"
#include "sessions/database.hpp"
#include "strategy/catalogue.hpp"
#include "strategy/repairing.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

repair_result repair(connection_source const& source, std::string const& name, repair_options const& o) {
  base::require_name(name);
  manager_options tables;
  tables.table_prefix = o.table_prefix;
  tables.schema = o.schema;
  sessions::database database(source.implementation(), tables);
  auto const session = database.open(boot_clock::now() + o.reply_timeout);
  auto const deadline = [&] { return boot_clock::now() + o.reply_timeout; };
  strategies::catalogue const strategies(database.statements());
  for (auto const& [which, strategy] : strategies)
    if (strategy->holder(*session, name, deadline())) return repair_result::held;
  return strategies::repairing(database.statements()).repair(*session, name, deadline());
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
