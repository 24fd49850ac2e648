#pragma once
// From a public asynchronous call to the manager's.

#include <memory>
#include <rowlock/asynchronous.hpp>
#include <rowlock/held_locks.hpp>
#include <string>
#include <vector>

#include "manager/manager.hpp"

namespace rowlock {

/// Takes the spec with an owner of its own, unless an explicit one is named.
/// @throws error(errc::unsupported) for a recursive lock
async_start<acquisition> take_asynchronously(std::shared_ptr<managing::manager>, managing::lock_spec const&,
                                             async_wait const&);
async_start<acquisition_of_all> take_all_asynchronously(std::shared_ptr<managing::manager>,
                                                        std::vector<std::string> const& names, mutex_options,
                                                        async_wait const&);

}  // namespace rowlock
