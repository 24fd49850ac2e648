#pragma once
// What an operator does to the database by SQL. Needs SOCI.

#include <random>
#include <set>
#include <string>

namespace rowlock::torture {

/// Whether this program was built with SOCI.
bool has_soci() noexcept;

/// Ends up to three of the server's sessions whose clients are on this machine, at one of those ports.
/// @throws std::exception
void end_sessions(std::string const& db, std::set<int> const& ports, std::mt19937&);

/// Deletes the lock's row, whoever has it. @throws std::exception
void delete_row(std::string const& db, std::string const& name);

}  // namespace rowlock::torture
