#pragma once
// An attempt of strategy row_lock: a session of its own, the wait in the server, and the token if one is
// asked for.

#include <optional>
#include <rowlock/types.hpp>
#include <stop_token>

#include "process/engine.hpp"
#include "process/lock_spec.hpp"

namespace rowlock::process {

struct row_grant {
  session_keeper::holding holding;
  fencing_token token;
};

/// Tries once (`deadline` empty) or waits until `deadline`. Empty: somebody else has it, and `holder` says
/// who, as far as the server tells.
/// @throws error as row_lock::take, and what opening a session throws
std::optional<row_grant> lock_row(engine&, lock_spec const&, std::optional<boot_time_point> deadline,
                                  std::stop_token, std::optional<holder_info>& holder);

}  // namespace rowlock::process
