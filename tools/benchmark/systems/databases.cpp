#include "systems/databases.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <regex>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/mutex.hpp>
#include <rowlock/mysql.hpp>
#include <rowlock/postgresql.hpp>
#include <rowlock/sqlite.hpp>
#include <stdexcept>

namespace rowlock::bench {

std::vector<database> const& databases() {
  auto const mysql = [](std::string const& address) -> connection_source { return mysql::source(address); };
  std::vector const all_three{strategy::lease, strategy::unique_insert, strategy::row_lock};
  static std::vector<database> const all{
      {"postgresql", "PostgreSQL", all_three,
       [](std::string const& address) -> connection_source { return postgresql::source(address); }},
      {"mariadb", "MariaDB", all_three, mysql},
      {"mysql", "MySQL", all_three, mysql},
      {"sqlite",
       "SQLite",
       {strategy::lease, strategy::unique_insert},
       [](std::string const& address) -> connection_source { return sqlite::source(address); }},
  };
  return all;
}

database const& database_of(std::string const& id) {
  for (auto const& each : databases())
    if (each.id == id) return each;
  throw std::invalid_argument("there is no database " + id);
}

void migrate(database const& where, std::string const& address, std::string const& table_prefix) {
  migrator(where.source(address), {.table_prefix = table_prefix}).up();
}

void grants(database const& where, std::string const& address) {
  lock_manager manager(where.source(address));
  (void)manager.make_mutex("rowlock-bench").acquire();
}

std::string new_term() {
  static std::atomic<unsigned> terms = 0;
  return fmt::format("{:08x}{:08x}0123456789abcdef", ::getpid(), ++terms);
}

mysql_address parsed_mysql_address(std::string const& url) {
  std::smatch parts;
  if (!std::regex_match(url, parts, std::regex("mysql://([^:]+):([^@]+)@([^:]+):([0-9]+)/(.+)")))
    throw std::invalid_argument("this address is not mysql://USER:PASSWORD@HOST:PORT/DATABASE");
  return {parts[1], parts[2], parts[3], parts[5], static_cast<unsigned>(std::stoul(parts[4]))};
}

}  // namespace rowlock::bench
