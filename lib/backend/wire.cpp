#include "backend/wire.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace rowlock::backend {
namespace {

union address {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
  sockaddr_storage room;
};

bool is_loopback(address const& a) {
  if (a.any.sa_family == AF_INET) return (ntohl(a.four.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  auto const& six = a.six.sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
}

int option(int fd, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, level, name, &value, &size) == 0 ? value : 0;
}

std::chrono::seconds keepalive_of(int fd) {
  if (option(fd, SOL_SOCKET, SO_KEEPALIVE) == 0) return {};
  auto const probes = option(fd, IPPROTO_TCP, TCP_KEEPINTVL) * option(fd, IPPROTO_TCP, TCP_KEEPCNT);
  return std::chrono::seconds(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) + probes);
}

}  // namespace

std::optional<std::uint64_t> received_bytes(int fd) noexcept {
  tcp_info about{};
  socklen_t size = sizeof about;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &about, &size) != 0) return std::nullopt;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof about.tcpi_bytes_received) return std::nullopt;
  return about.tcpi_bytes_received;
}

void read_wire(int fd, session_facts& to) noexcept {
  address peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(fd, &peer.any, &size) != 0) return;
  bool const tcp = peer.any.sa_family == AF_INET || peer.any.sa_family == AF_INET6;
  to.leaves_machine = tcp && !is_loopback(peer);
  if (tcp) to.keepalive = keepalive_of(fd);
}

}  // namespace rowlock::backend
