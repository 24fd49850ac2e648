#pragma once
// The checks that all databases have in common, a function each: nothing if it does not apply.

#include <optional>

#include "diagnose/examination.hpp"

namespace rowlock::diagnose {

std::optional<opinion> schema(examination&);
std::optional<opinion> grants(examination&);
std::optional<opinion> clock(examination&);
std::optional<opinion> keepalive(examination&);
std::optional<opinion> waiting(examination&);
std::optional<opinion> limits(examination&);
/// Takes, renews and gives back a lock of each strategy, and rolls that back.
std::optional<opinion> takes(examination&);
/// What `rowlock migrate validate` finds.
std::optional<opinion> as_migrated(examination&);

}  // namespace rowlock::diagnose
