#pragma once
// An attempt of strategy row_lock: a session of its own, the wait in the server, and the token if one is
// asked for.

#include <optional>
#include <rowlock/types.hpp>
#include <stop_token>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

namespace rowlock::managing {

struct row_grant {
  holding::session_pinger::anchor anchor;
  fencing_token token;
};

/// Why there was none.
struct refusal {
  std::optional<holder_info> holder;  ///< as far as the server tells
  bool by_nobody = false;             ///< a transaction was in the way, and nobody holds it
};

/// Tries once (`deadline` empty) or waits until `deadline`. A session that others need meanwhile is given up
/// after connection_pool::longest_turn, and with it the place in the server's line: a name that is held must
/// not keep one that is free from its caller. Empty: see the refusal.
/// @throws error as row_lock::take, and what opening a session throws
std::optional<row_grant> try_row_lock(engine&, lock_spec const&, std::optional<boot_time_point> deadline,
                                      std::stop_token const&, refusal&);

}  // namespace rowlock::managing
