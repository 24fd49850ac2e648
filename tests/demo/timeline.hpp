#pragma once

#include <string>

#include "demo/nemesis.hpp"

namespace rowlock::demo {

/// A picture (SVG) of a second and a half around a pause, of a run with mode::lease above, and one with
/// mode::require below: who believed to hold the lock when, who was stopped, and which writes the database
/// took. Throws if there is no pause in them that would show it.
std::string timeline(std::string const& database, phase_options const& o, outcome const& lease,
                     outcome const& require);

}  // namespace rowlock::demo
