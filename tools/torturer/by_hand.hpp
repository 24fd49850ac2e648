#pragma once
// What an operator does to the database by SQL. Needs SOCI.

#include <random>
#include <set>
#include <string>

namespace rowlock::torture {

/// Whether this program was built with SOCI.
bool has_soci() noexcept;

/// Not if its URL says more than SOCI can be told, such as how to encrypt.
bool can_be_reached_by_sql(std::string const& db);

/// Ends up to three of the server's sessions whose clients are on this machine, at one of those ports.
/// @throws std::exception
void end_sessions(std::string const& db, std::set<int> const& ports, std::mt19937&);

/// Deletes the lock's row, whoever has it. @throws std::exception
void delete_row(std::string const& db, std::string const& name);

/// Makes the role torture_client, which may log in, lock by the tables torture_*, and nothing else. One that
/// is left of a run that was killed is dropped first.
/// @param adds it may also write to torture_sums, which exists
/// @return `db`, as that role comes there
/// @throws std::exception
std::string make_client_role(std::string const& db, bool adds);
/// @throws std::exception
void drop_client_role(std::string const& db);
/// Gives that role all rights that locks need: at first, and on PostgreSQL after a migration has made a table
/// anew. @throws std::exception
void let_clients_lock(std::string const& db);
/// Whether that role may write to the locks' tables. @throws std::exception
void let_clients_write(std::string const& db, bool may);

}  // namespace rowlock::torture
