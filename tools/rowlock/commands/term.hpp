#pragma once

#include <functional>
#include <rowlock/rowlock.hpp>
#include <string>

#include "cli.hpp"

namespace rowlock::tool {

/// A lock as `rowlock take` printed it.
struct named_term {
  std::string name;
  std::string term;
};

/// Renews or gives back exactly that lock. If it is lost, says so and who has the name. `done`: "renewed".
end_of_program by_term(invocation&, named_term const&, char const* done,
                       std::function<bool(lock_manager&, detached_lock const&)> const&);

}  // namespace rowlock::tool
