#include "backend/mysql/own_socket.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

#include "backend/wire.hpp"

namespace rowlock::backend::mysql {
namespace {

std::optional<ino_t> inode_of_socket(int fd) {
  struct stat found {};
  if (::fstat(fd, &found) != 0 || !S_ISSOCK(found.st_mode)) return std::nullopt;
  return found.st_ino;
}

}  // namespace

std::shared_ptr<own_socket> own_socket::of(int fd) {
  auto const inode = inode_of_socket(fd);
  if (!inode) return nullptr;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  int const copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return copy < 0 ? nullptr : std::shared_ptr<own_socket>(new own_socket(copy, fd, *inode));
}

bool own_socket::is(int fd) const noexcept { return fd == original_ && inode_of_socket(fd) == inode_; }

bool own_socket::hung_up() const noexcept {
  pollfd one{fd(), POLLIN | POLLRDHUP, 0};
  return ::poll(&one, 1, 0) != 0;
}

void own_socket::close_copies() noexcept {
  if (is(original_)) ::close(original_);
  forget();
}

void own_socket::keep_alive() const noexcept {
  auto const set = [this](int level, int name, int value) {
    ::setsockopt(fd(), level, name, &value, sizeof value);  // a Unix socket knows none of them
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

void own_socket::describe(session_facts& to) const noexcept { read_wire(fd(), to); }

}  // namespace rowlock::backend::mysql
