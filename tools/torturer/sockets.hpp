#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

namespace rowlock::torture {

/// Of all TCP connections that these processes of the same user have: the ports on this machine. A process
/// that is gone has none.
std::set<int> ports_of(std::vector<pid_t> const& processes);

}  // namespace rowlock::torture
