#include "backend/mysql/own_socket.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "backend/wire.hpp"

namespace rowlock::backend::mysql {
namespace {

union address {
  sockaddr any;
  sockaddr_in four;
  sockaddr_in6 six;
  sockaddr_un local;
};

struct close_folder {
  void operator()(DIR* d) const noexcept { ::closedir(d); }
};

std::optional<ino_t> inode_of_socket(int fd) {
  struct stat found {};
  if (::fstat(fd, &found) != 0 || !S_ISSOCK(found.st_mode)) return std::nullopt;
  return found.st_ino;
}

// By its name in /proc, "socket:[4711]": nothing is done to a descriptor that may be another thread's.
std::optional<ino_t> inode_by_name(int folder, char const* fd) {
  constexpr std::string_view before = "socket:[";
  std::array<char, 64> target{};
  auto const size = ::readlinkat(folder, fd, target.data(), target.size());
  if (size <= 0) return std::nullopt;
  std::string_view const name(target.data(), static_cast<std::size_t>(size));
  if (!name.starts_with(before)) return std::nullopt;
  ino_t inode = 0;
  if (std::from_chars(name.data() + before.size(), name.data() + name.size(), inode).ec != std::errc{})
    return std::nullopt;
  return inode;
}

std::vector<std::pair<int, ino_t>> open_sockets() {
  std::vector<std::pair<int, ino_t>> out;
  std::unique_ptr<DIR, close_folder> const folder(::opendir("/proc/self/fd"));
  if (!folder) return out;
  while (auto const* entry = ::readdir(folder.get())) {
    std::string_view const name = entry->d_name;
    int fd = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc{}) continue;
    if (auto const inode = inode_by_name(::dirfd(folder.get()), entry->d_name)) out.emplace_back(fd, *inode);
  }
  return out;
}

}  // namespace

std::shared_ptr<own_socket> own_socket::find(int fd, ino_t inode) {
  int const copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return nullptr;
  std::shared_ptr<own_socket> found(new own_socket(copy, fd, inode));
  // Only what is certain to be ours is looked at: the number may have become another thread's meanwhile.
  if (inode_of_socket(copy) != inode) return nullptr;
  return found;
}

std::shared_ptr<own_socket> own_socket::of(int fd) {
  auto const inode = inode_of_socket(fd);
  if (!inode) return nullptr;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return find(fd, *inode);
}

own_socket::~own_socket() {
  if (copy_ >= 0) ::close(copy_);
}

bool own_socket::hung_up() const noexcept {
  pollfd one{copy_, POLLIN | POLLRDHUP, 0};
  return ::poll(&one, 1, 0) != 0;
}

void own_socket::shut_down() const noexcept { ::shutdown(copy_, SHUT_RDWR); }

void own_socket::close_copies() noexcept {
  if (inode_of_socket(original_) == inode_) ::close(original_);
  ::close(std::exchange(copy_, -1));
}

bool own_socket::leads_to(int port, std::string const& path) const {
  address peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(copy_, &peer.any, &size) != 0) return false;
  switch (peer.any.sa_family) {
    case AF_INET:
      return path.empty() && ntohs(peer.four.sin_port) == port;
    case AF_INET6:
      return path.empty() && ntohs(peer.six.sin6_port) == port;
    case AF_UNIX:
      return !path.empty() && size > offsetof(sockaddr_un, sun_path) && path == peer.local.sun_path;
    default:
      return false;
  }
}

void own_socket::keep_alive() const noexcept {
  auto const set = [this](int level, int name, int value) {
    ::setsockopt(copy_, level, name, &value, sizeof value);  // a Unix socket knows none of them
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void own_socket::describe(session_facts& to) const noexcept { read_wire(copy_, to); }

int own_socket::local_port() const noexcept {
  address here{};
  socklen_t size = sizeof here;
  if (::getsockname(copy_, &here.any, &size) != 0) return 0;
  if (here.any.sa_family == AF_INET) return ntohs(here.four.sin_port);
  return here.any.sa_family == AF_INET6 ? ntohs(here.six.sin6_port) : 0;
}

socket_search::socket_search() : before_(open_sockets()) {}

std::vector<std::shared_ptr<own_socket>> socket_search::find(int port, std::string const& path) const {
  std::vector<std::shared_ptr<own_socket>> found;
  for (auto const& [fd, inode] : open_sockets()) {
    if (std::find(before_.begin(), before_.end(), std::pair(fd, inode)) != before_.end()) continue;
    auto one = own_socket::find(fd, inode);
    if (!one || !one->leads_to(port, path)) continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace rowlock::backend::mysql
