#pragma once
// Functions or procedures for SQL without C++, where a database has them: a dump may have left them out, or
// somebody has dropped them.

#include <string>
#include <vector>

#include "migrate/session.hpp"

namespace rowlock::migrate {

/// Those of schema version `version` that are not there, without the tables' prefix, in the order in which
/// they can be made. Runs nobody's routine. One that is there and hidden from this user is not missing.
std::vector<std::string> missing_routines(session&, int version);

/// Makes these as that version has them. Rights that were granted on them before are gone.
void make_routines(session&, int version, std::vector<std::string> const& names);

}  // namespace rowlock::migrate
