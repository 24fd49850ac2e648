#pragma once
// Operations on locks by name and term, whatever process holds them.

#include <optional>
#include <rowlock/options.hpp>
#include <rowlock/types.hpp>
#include <span>
#include <string>
#include <vector>

#include "manager/engine.hpp"

namespace rowlock::managing::named_locks {

/// All throw error.
std::vector<lock_info> list(engine&, list_options const&);
std::optional<lock_info> find(engine&, std::string const& name);
bool revoke(engine&, std::string const& name, revoke_mode, term_id const& only);
bool release(engine&, detached_lock const&);
bool renew(engine&, detached_lock const&);

}  // namespace rowlock::managing::named_locks
