#pragma once

#include <string>
#include <vector>

#include "checker.hpp"

namespace rowlock::torture {

/// The time around a violation as an SVG: a line for each thread that held the lock then, with what it held,
/// and the faults. Empty if the violation has no records.
std::string picture(std::vector<record> const& history, violation const&);

}  // namespace rowlock::torture
