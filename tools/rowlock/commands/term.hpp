#pragma once

#include <functional>
#include <rowlock/rowlock.hpp>
#include <string>

#include "cli.hpp"

namespace rowlock::tool {

/// What `rowlock take` said of a lock.
struct named_term {
  std::string name;
  std::string term;
};

/// Does it to that very lock; says if it is not there any more, and who has the name. `done`: "renewed".
end_of_program by_term(invocation&, named_term const&, char const* done,
                       std::function<bool(lock_manager&, detached_lock const&)> const&);

}  // namespace rowlock::tool
