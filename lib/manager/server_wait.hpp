#pragma once
// An attempt of a strategy that waits in the server, on a session of its own. If other calls need a session,
// it gives up its own, with its place in the server, after connection_pool::longest_turn, and begins again.
// So calls for free names get a session.

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

/// Without `deadline`, tries once.
/// @throws error as the strategy's take(), or from opening a session
std::variant<server_grant, strategies::refused> wait_in_server(engine&, strategies::locking_strategy const&,
                                                               strategies::take_request,
                                                               std::optional<boot_time_point> deadline,
                                                               std::stop_token const&,
                                                               boot_time_point& sent_at);

}  // namespace rowlock::managing
