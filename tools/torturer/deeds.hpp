#pragma once
// What an operator does to the tables by rowlock itself. These have threads: for a process of their own.

#include <rowlock/rowlock.hpp>
#include <string>

namespace rowlock::torture {

/// Until this process is killed: several reapers at once, which take the lease away from each other and
/// delete whatever is idle.
[[noreturn]] void reap(connection_source const&);

/// Brings the tables up to date. @param down first takes away what only some kinds of locks need
/// @throws error
void migrate(connection_source const&, bool down);

/// Takes a lock away from whoever has it, at once: as `rowlock release --now`, or by deleting the row.
void take_away(std::string const& db, std::string const& name, bool by_hand);

}  // namespace rowlock::torture
