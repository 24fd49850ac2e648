#include "outages/relay.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <regex>
#include <stdexcept>
#include <system_error>

namespace rowlock::test {
namespace {

sockaddr_in here(int port, std::string const& address = "127.0.0.1") {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  ::inet_pton(AF_INET, address.c_str(), &a.sin_addr);
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  return a;
}

int checked(int result, char const* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

int new_socket() { return checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"); }

// With a reset instead of a farewell.
void close_hard(int fd) {
  linger const at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
}

std::regex const& port_pattern() {
  static std::regex const pattern("(://[^/]*:|port='?)([0-9]+)");
  return pattern;
}

}  // namespace

int port_of(std::string const& address) {
  std::smatch found;
  if (!std::regex_search(address, found, port_pattern())) throw std::runtime_error("no port: " + address);
  return std::stoi(found.str(2));
}

// A socket that never listens keeps the port ours while connections to it are refused: an outgoing connection
// of anybody else's would get it otherwise.
relay::relay(int server_port, std::string const& at, int port)
    : server_port_(server_port), address_(at), port_(port) {
  reserved_ = bound();
  auto address = here(0);
  socklen_t size = sizeof address;
  checked(::getsockname(reserved_, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  port_ = ntohs(address.sin_port);
  listen();
  thread_ = std::jthread([this] { run(); });
}

relay::~relay() {
  become(mode::ended);
  ::close(reserved_);
}

std::string relay::through(std::string const& address) const {
  return std::regex_replace(address, port_pattern(), "$01" + std::to_string(port_),
                            std::regex_constants::format_first_only);
}

void relay::become(mode wanted) {
  std::unique_lock lock(mutex_);
  wanted_ = wanted;
  asked_.set();
  applied_.wait(lock, [&] { return present_ == wanted; });
}

int relay::bound() const {
  int const fd = new_socket();
  int const yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  auto const address = here(port_, address_);
  checked(::bind(fd, reinterpret_cast<sockaddr const*>(&address), sizeof address), "bind");
  return fd;
}

void relay::listen() {
  listener_ = bound();
  checked(::listen(listener_, 200), "listen");
}

void relay::run() {
  while (present_ != mode::ended) {
    std::vector<pollfd> all{{asked_.fd(), POLLIN, 0}};
    if (present_ == mode::passing) {
      all.push_back({listener_, POLLIN, 0});
      for (auto const& [fd, other] : other_end_) all.push_back({fd, POLLIN, 0});
    }
    if (::poll(all.data(), all.size(), -1) < 0) continue;
    if (all[0].revents != 0) {
      asked_.clear();
      std::lock_guard const guard(mutex_);
      apply(wanted_);
      continue;
    }
    if (all[1].revents != 0) connect_next();
    for (std::size_t i = 2; i < all.size(); ++i) {
      auto const found = other_end_.find(all[i].fd);
      if (all[i].revents != 0 && found != other_end_.end() && !pass_on(found->first, found->second))
        end(found->first);
    }
  }
}

void relay::apply(mode wanted) {
  if (wanted == mode::refusing || wanted == mode::ended) {
    end_all();
    if (listener_ >= 0) ::close(listener_);
    listener_ = -1;
  } else if (listener_ < 0) {
    listen();
  }
  present_ = wanted;
  applied_.notify_all();
}

void relay::connect_next() {
  int const near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (near < 0) return;
  int const far = new_socket();
  auto const address = here(server_port_);
  if (::connect(far, reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0) {
    close_hard(far);
    close_hard(near);
    return;
  }
  other_end_[near] = far;
  other_end_[far] = near;
  if (++connections_ == cut_.which) cut_near_ = near;
}

bool relay::is_cut(int from) {
  if (cut_near_ < 0 || was_cut_) return false;
  if (from == cut_near_) ++said_;
  bool const now = cut_.answered ? from == other_end_.at(cut_near_) && said_ >= cut_.number
                                 : from == cut_near_ && said_ == cut_.number;
  if (now) was_cut_ = true;
  return now;
}

bool relay::pass_on(int from, int to) {
  std::array<char, 65536> data{};
  auto const got = ::recv(from, data.data(), data.size(), 0);
  if (got > 0 && is_cut(from)) return false;
  for (ssize_t sent = 0; sent < got;) {
    auto const n = ::send(to, data.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
    if (n < 0) return false;
    sent += n;
  }
  if (got > 0) ++passed_;
  return got > 0;
}

void relay::end(int fd) {
  int const other = other_end_.at(fd);
  if (fd == cut_near_ || other == cut_near_) cut_near_ = -1;  // the number is another connection's soon
  other_end_.erase(fd);
  other_end_.erase(other);
  close_hard(fd);
  close_hard(other);
}

void relay::end_all() {
  while (!other_end_.empty()) end(other_end_.begin()->first);
}

}  // namespace rowlock::test
