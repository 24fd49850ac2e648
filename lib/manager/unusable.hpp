#pragma once

#include <rowlock/error.hpp>

#include <string>

#include "manager/engine.hpp"

namespace rowlock::managing {

/// After a take that the database has refused. @throws error(errc::unsupported), with the command to run, if
/// no fencing token above the name's is left
void refuse_if_unusable(engine&, error const&, std::string const& name);

}  // namespace rowlock::managing
