#pragma once
// The checks that all databases share, one function each. An empty result: the check does not apply.

#include <optional>

#include "diagnose/examination.hpp"

namespace rowlock::diagnose {

std::optional<opinion> schema(examination&);
std::optional<opinion> grants(examination&);
std::optional<opinion> clock(examination&);
std::optional<opinion> keepalive(examination&);
std::optional<opinion> waiting(examination&);
std::optional<opinion> limits(examination&);
std::optional<opinion> quarantine(examination&);
std::optional<opinion> takes(examination&);
std::optional<opinion> as_migrated(examination&);

}  // namespace rowlock::diagnose
