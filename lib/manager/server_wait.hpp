#pragma once
// An attempt of a strategy that waits in the server: on a session of its own, for as long as others can do
// without it.

#include <optional>
#include <rowlock/types.hpp>
#include <stop_token>
#include <variant>

#include "manager/engine.hpp"

namespace rowlock::managing {

struct server_grant {
  holding::session_pinger::anchor anchor;
  fencing_token token;
};

/// Tries once (`deadline` empty) or waits until `deadline`. A session that others need meanwhile is given up
/// after connection_pool::longest_turn, and the wait begins again.
/// @throws error as the strategy's take(), and what opening a session throws
std::variant<server_grant, strategies::refused> wait_in_server(engine&, strategies::locking_strategy const&,
                                                               strategies::take_request,
                                                               std::optional<boot_time_point> deadline,
                                                               std::stop_token const&,
                                                               boot_time_point& sent_at);

}  // namespace rowlock::managing
