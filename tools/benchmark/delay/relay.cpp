// rowlock-bench-relay PORT MICROSECONDS: a way to PORT of 127.0.0.1 that takes as long as a cloud's network.
// It prints the port of 127.0.0.1 on which it listens, and forwards each connection. It holds each chunk for
// MICROSECONDS, in both directions. Any number of chunks can be on the way. It ends when its output has no
// reader.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>

namespace rowlock::bench {
namespace {

using clock = std::chrono::steady_clock;

int checked(int result, char const* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

int stream() { return checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"); }

struct connection {
  connection(int c, int s) : client(c), server(s) {
    int const on = 1;
    for (int const fd : {client, server}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() {
    ::close(client);
    ::close(server);
  }
  int const client;
  int const server;
};
using shared_connection = std::shared_ptr<connection const>;

/// What one side has said.
struct chunk {
  clock::time_point due;
  shared_connection of;
  int to;
  std::string bytes;  ///< empty: that side says no more
};

/// One thread. A connection lives as long as one of its sides speaks, or a chunk of it is held.
class relay {
 public:
  relay(std::uint16_t server_port, clock::duration delay) : server_(loopback(server_port)), delay_(delay) {
    auto here = loopback(0);
    socklen_t size = sizeof here;
    checked(::bind(listener_, reinterpret_cast<sockaddr const*>(&here), size), "bind");
    checked(::listen(listener_, SOMAXCONN), "listen");
    checked(::getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &size), "getsockname");
    port_ = ntohs(here.sin_port);
    watch(listener_, EPOLLIN);
  }
  std::uint16_t port() const noexcept { return port_; }

  /// Returns when the file `output`, a pipe, has no reader.
  void run(int output) {
    watch(output, 0);  // EPOLLERR is always watched for
    for (;;) {
      std::array<epoll_event, 64> events{};
      auto const count = wait(events);
      for (int i = 0; i < count; ++i) {
        int const fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == output) return;
        if (fd == listener_)
          accept_one();
        else
          read_from(fd);
      }
      deliver();
    }
  }

 private:
  void watch(int fd, std::uint32_t what) const {
    epoll_event event{};
    event.events = what;
    event.data.fd = fd;
    // A regular file can't be watched, and always has a reader.
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EPERM) checked(-1, "epoll_ctl");
  }

  /// Until something comes or a chunk is due. @return how many events there are
  int wait(std::array<epoll_event, 64>& events) const {
    timespec left{};
    if (!held_.empty()) {
      auto const time = std::max(held_.front().due - clock::now(), clock::duration::zero());
      auto const seconds = std::chrono::floor<std::chrono::seconds>(time);
      left = {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(time - seconds).count()};
    }
    auto const* const timeout = held_.empty() ? nullptr : &left;
    auto const count =
        ::epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), timeout, nullptr);
    return count < 0 && errno == EINTR ? 0 : checked(count, "epoll_pwait2");
  }

  void accept_one() {
    int const client = checked(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), "accept");
    auto const made = std::make_shared<connection const>(client, stream());
    if (::connect(made->server, reinterpret_cast<sockaddr const*>(&server_), sizeof server_) != 0) return;
    for (int const fd : {made->client, made->server}) {
      speaking_.emplace(fd, made);
      watch(fd, EPOLLIN);
    }
  }

  void read_from(int fd) {
    auto const found = speaking_.find(fd);
    auto const& of = found->second;
    auto const got = ::recv(fd, room_.data(), room_.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    auto const size = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    held_.push_back(
        {clock::now() + delay_, of, fd == of->client ? of->server : of->client, {room_.data(), size}});
    if (size > 0) return;
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    speaking_.erase(found);
  }

  void deliver() {
    for (auto const now = clock::now(); !held_.empty() && held_.front().due <= now; held_.pop_front()) {
      auto const& first = held_.front();
      if (first.bytes.empty()) ::shutdown(first.to, SHUT_WR);
      send_all(first.to, first.bytes);
    }
  }

  /// A side that does not read keeps all others waiting. A side that is gone is noticed by read_from().
  static void send_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
      auto const sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return;
      bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
    }
  }

  sockaddr_in server_;
  clock::duration delay_;
  int epoll_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  int listener_ = stream();
  std::uint16_t port_ = 0;
  std::unordered_map<int, shared_connection> speaking_;  ///< by the socket that is read from
  std::deque<chunk> held_;  ///< of all connections: each is held equally long, and so the first is due first
  std::array<char, 65536> room_{};
};

int run(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: rowlock-bench-relay PORT MICROSECONDS\n", stderr);
    return 64;
  }
  // Without it the kernel can be late by 50 us.
  ::prctl(PR_SET_TIMERSLACK, 1UL);
  relay wire(static_cast<std::uint16_t>(std::stoul(argv[1])), std::chrono::microseconds(std::stoul(argv[2])));
  std::printf("%d\n", wire.port());
  std::fflush(stdout);
  wire.run(STDOUT_FILENO);
  return 0;
}

}  // namespace
}  // namespace rowlock::bench

int main(int argc, char** argv) try {
  return rowlock::bench::run(argc, argv);
} catch (std::exception const& e) {
  std::fprintf(stderr, "rowlock-bench-relay: %s\n", e.what());
  return 2;
}
