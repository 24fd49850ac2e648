#pragma once

#include <chrono>
#include <optional>

#include "commands/under_lock.hpp"

namespace rowlock::tool {

/// How long `rowlock lead` waits before it campaigns again; empty if it ends instead. `waited`: before this
/// campaign.
std::optional<std::chrono::seconds> before_next_campaign(ran_under_lock const&, bool restart,
                                                         std::chrono::seconds waited);

}  // namespace rowlock::tool
