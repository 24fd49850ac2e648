#include "systems/system.hpp"

namespace rowlock::bench {

std::vector<system_entry> const& catalogue() {
  static std::vector<system_entry> const all = [] {
    std::vector<system_entry> made;
    add_rowlock(made);
    add_redis(made);
    add_zookeeper(made);
    add_etcd(made);
    add_postgresql(made);
    add_postgresql_batches(made);
    add_postgresql_queues(made);
    add_mysql(made);
    add_mysql_batches(made);
    add_postgresql_transactions(made);
    add_mysql_transactions(made);
    add_growth(made);
    add_commands(made);
    add_floors(made);
    return made;
  }();
  return all;
}

system_entry const* find_system(std::string const& id) {
  for (auto const& each : catalogue())
    if (each.id == id) return &each;
  return nullptr;
}

}  // namespace rowlock::bench
