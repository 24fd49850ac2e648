#pragma once
// Functions or procedures for SQL without C++. A dump can omit them, and an operator can drop them.

#include <string>
#include <vector>

#include "migrate/session.hpp"

namespace rowlock::migrate {

/// The missing routines of schema version `version`, without prefix, in the order for make_routines(). Runs
/// none of them. A routine that is hidden from this user is not missing.
std::vector<std::string> missing_routines(session&, int version);

/// Makes the routines as that version has them. Earlier grants on them are lost.
void make_routines(session&, int version, std::vector<std::string> const& names);

}  // namespace rowlock::migrate
