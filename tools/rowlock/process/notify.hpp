#pragma once

#include <string_view>

namespace rowlock::tool {

/// Tells the service manager, which has set NOTIFY_SOCKET, as sd_notify(3) does: "READY=1\nSTATUS=...".
/// Nothing happens without that variable, or if it fails: the state is for people.
void notify_service_manager(std::string_view state) noexcept;

}  // namespace rowlock::tool
