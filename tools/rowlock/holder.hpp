#pragma once

#include <rowlock/types.hpp>

#include <nlohmann/json_fwd.hpp>
#include <rowlock/lock_manager.hpp>
#include <string>

namespace rowlock::tool {

/// "web3 pid 4711 since 2026-11-20 10:00:00Z, for 29.5s more at most unless it is renewed".
std::string describe(holder_info const&);

/// "web3 pid 4711", an explicit owner's text, or what the database tells of the session that holds a row
/// lock.
std::string owner_of(holder_info const&);
/// Empty if the database does not tell.
std::string since(holder_info const&);

/// "held", "expired" (nobody has taken it yet), "revoked" (held, but to be given back), "idle", "done"
/// (recorded as done, by `rowlock once` or a program), or "unknown".
char const* state_of(lock_info const&) noexcept;

/// For a row that can't be read, everything is null except name, state, and `why`, which other rows don't
/// have.
nlohmann::ordered_json to_json(lock_info const&);

}  // namespace rowlock::tool
