#include "process/notify.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

#include "process/descriptor.hpp"

namespace rowlock::tool {

void notify_service_manager(std::string_view state) noexcept {
  char const* const set = std::getenv("NOTIFY_SOCKET");
  if (set == nullptr) return;
  std::string_view const path(set);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof to.sun_path) return;
  std::copy(path.begin(), path.end(), to.sun_path);
  if (path.front() == '@') to.sun_path[0] = '\0';  // abstract: its name has no end but its length
  auto const size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  descriptor const from(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (from)
    ::sendto(from.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
             reinterpret_cast<sockaddr const*>(&to), size);
}

}  // namespace rowlock::tool
