#pragma once

#include <rowlock/error.hpp>

#include <string>

#include "manager/engine.hpp"

namespace rowlock::managing {

/// After a take that the database has refused. @throws error(errc::unsupported), which says what to run, if
/// that was because the name's fencing token leaves no room above it
void refuse_if_unusable(engine&, error const&, std::string const& name);

}  // namespace rowlock::managing
