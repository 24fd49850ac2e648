#pragma once
// Operations on the units of a name.

#include <cstdint>
#include <optional>
#include <string>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing::named_permits {

/// All throw error.
void set_limit(engine&, lock_spec const&, std::int64_t limit);
std::optional<std::int64_t> free_units(engine&, lock_spec const&);

}  // namespace rowlock::managing::named_permits
