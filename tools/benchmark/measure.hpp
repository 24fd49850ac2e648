#pragma once
#include "results.hpp"

namespace rowlock::bench {

/// One system, once. `name` is of the lock, or what its names begin with.
/// @throws std::exception with the reason if it failed
measurement measure(scenario const&, system_entry const&, places const&, crew_plan const&);

// What measure() calls, a file each.
measurement measure_waiting(system_entry const&, std::string const& address, crew_plan const&);
measurement measure_loop(system_entry const&, std::string const& address, crew_plan const&);
measurement measure_command(system_entry const&, places const&);
measurement measure_syscalls(system_entry const&, places const&);

}  // namespace rowlock::bench
