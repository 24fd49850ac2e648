#pragma once
#include <functional>
#include <rowlock/connection_source.hpp>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

namespace rowlock::bench {

/// A database that rowlock works on.
struct database {
  std::string id;
  std::string title;
  std::vector<strategy> strategies;  ///< that it has
  std::function<connection_source(std::string const& address)> source;
};

std::vector<database> const& databases();
/// One that is there.
database const& database_of(std::string const& id);

/// Makes rowlock's tables, if they are not there.
void migrate(database const&, std::string const& address, std::string const& table_prefix = "rowlock_");

/// Returns when the database grants leases, which it does not for a while after its start (quarantine).
void grants(database const&, std::string const& address);

/// The term of a lease. No other call, here or in another process, returns the same.
std::string new_term();

/// How a transaction of the program's own is guarded.
enum class guard { none, require, commit, prepared, bare };

/// What mysql://USER:PASSWORD@HOST:PORT/DATABASE is made of.
struct mysql_address {
  std::string user, password, host, database;
  unsigned port = 0;
};
mysql_address parsed_mysql_address(std::string const&);

}  // namespace rowlock::bench
