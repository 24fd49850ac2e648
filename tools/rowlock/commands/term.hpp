#pragma once

#include <functional>
#include <optional>
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

/// Gives a lock back that release() may not have given back: tries again and again by its term, each time on
/// a session that works, on whichever host of the URL that is. Until `until`, or a signal is to be read from
/// `signals`.
/// @return why it may still be taken; empty if the term is not in its row any more
std::optional<std::string> give_back_late(lock_manager&, detached_lock const&, boot_time_point until,
                                          int signals);

}  // namespace rowlock::tool
