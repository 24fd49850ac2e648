#include "wire.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <limits>
#include <list>
#include <regex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "signals.hpp"

namespace rowlock::torture {
namespace {

// Orders. Whatever one of the first three was done to ends with the last; the fourth ends with the fifth.
constexpr char hush = 'h';
constexpr char silence = 's';
constexpr char reset = 'r';
constexpr char keep = 'k';
constexpr char deliver = 'd';
constexpr char cut = 'c';
constexpr std::size_t room = 1 << 16;

[[noreturn]] void fail(char const* what) { throw std::system_error(errno, std::generic_category(), what); }

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

int stream() {
  int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  return fd;
}

/// What one side has said and the other has not heard yet.
struct flow {
  int from = -1;
  int to = -1;
  std::string waiting;
  bool lost = false;

  /// False: it is at its end.
  bool read() {
    std::array<char, room> some{};
    auto const n = ::read(from, some.data(), some.size());
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (!lost) waiting.append(some.data(), static_cast<std::size_t>(n));
    return n > 0;
  }
  void lose() {
    lost = true;
    waiting.clear();
  }
  bool write() {
    auto const n = ::send(to, waiting.data(), waiting.size(), MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    waiting.erase(0, static_cast<std::size_t>(n));
    return true;
  }
};

/// What is forwarded is not kept back, to be sent with more.
void at_once(int fd) {
  int const yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

struct connection {
  connection(int client, int server) : asks{client, server, {}, false}, answers{server, client, {}, false} {
    at_once(client);
    at_once(server);
  }
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() {
    if (asks.from >= 0) reset_client();
    ::close(asks.to);
  }
  /// At once, and unread: a client that waits for an answer is told.
  void reset_client() {
    linger const now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(asks.from, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(asks.from);
    asks.from = answers.to = -1;  // which poll() does not look at
  }
  bool broken() const { return asks.lost || answers.lost; }
  flow asks;
  flow answers;
};

short wanted(flow const& in, flow const& out, bool kept = false) {
  return static_cast<short>((in.waiting.size() < room ? POLLIN : 0) |
                            (kept || out.waiting.empty() ? 0 : POLLOUT));
}

/// What was polled of both ends. False: it is over.
bool served(connection& c, short client, short server) {
  constexpr short readable = POLLIN | POLLHUP | POLLERR;
  // First what was said before: the last request of a client that was killed is still done.
  if ((server & POLLOUT) != 0 && !c.asks.write()) return false;
  if ((client & POLLOUT) != 0 && !c.answers.write()) return false;
  if ((client & readable) != 0 && !c.asks.read()) {
    if (!c.asks.lost) return false;
    c.reset_client();  // of which the server hears nothing either
  }
  return (server & readable) == 0 || c.answers.read();
}

/// @param silent nothing that is said on it arrives
void accept_one(int listener, std::uint16_t server_port, bool silent, std::list<connection>& all) {
  int const client = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (client < 0) return;
  int const server = stream();
  auto const to = loopback(server_port);
  auto& c = all.emplace_back(client, server);
  if (silent) {
    c.asks.lose();
    c.answers.lose();
  }
  if (::connect(server, reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0 && errno != EINPROGRESS)
    all.pop_back();
}

/// @param silent whether a new connection is cut off
/// @param kept whether answers are kept back
/// @return whether there may be more orders
bool obey(int orders, bool& silent, bool& kept, std::list<connection>& all) {
  char order = 0;
  if (::read(orders, &order, 1) != 1) return false;
  silent = order == silence;
  kept = order == keep;
  if (order == cut) all.remove_if([](connection const& c) { return c.broken(); });
  for (auto& c : all) {
    if (order == hush || order == reset || order == silence) c.answers.lose();
    if (order == reset || order == silence) c.asks.lose();
    if (order == reset) c.reset_client();
  }
  return ::write(orders, &order, 1) == 1;
}

void forward(int listener, std::uint16_t server_port, int orders) {
  std::list<connection> all;
  bool silent = false;
  bool kept = false;
  for (;;) {
    std::vector<pollfd> fds{{orders, POLLIN, 0}, {listener, POLLIN, 0}};
    for (auto const& c : all) {
      fds.push_back({c.asks.from, wanted(c.asks, c.answers, kept), 0});
      fds.push_back({c.answers.from, wanted(c.answers, c.asks), 0});
    }
    if (::poll(fds.data(), fds.size(), -1) < 0 && errno != EINTR) fail("poll");
    std::size_t at = 2;
    for (auto c = all.begin(); c != all.end(); at += 2)
      c = served(*c, fds[at].revents, fds[at + 1].revents) ? std::next(c) : all.erase(c);
    if (fds[1].revents != 0) accept_one(listener, server_port, silent, all);
    if (fds[0].revents != 0 && !obey(orders, silent, kept, all)) return;
  }
}

/// host=127.0.0.1 port=5432 of libpq's strings, @127.0.0.1:3306/ of URLs. Another host's port must not be
/// taken for one of this machine.
std::smatch port_named_in(std::string const& address) {
  static std::regex const names_port("(@127\\.0\\.0\\.1:|\\bport=)([0-9]{1,5})(?=$|[ /?])");
  std::smatch found;
  if (!std::regex_search(address, found, names_port) ||
      (found.str(1) == "port=" && address.find("host=127.0.0.1 ") == address.npos))
    throw std::runtime_error(
        "--wire: --db must name the host as 127.0.0.1, and its port: host=127.0.0.1 port=5432 ..., "
        "mysql://user@127.0.0.1:3306/...");
  return found;
}

}  // namespace

std::uint16_t wire::port_in(std::string const& address) {
  auto const found = port_named_in(address);
  auto const port = std::stoi(found.str(2));
  if (port < 1 || port > std::numeric_limits<std::uint16_t>::max())
    throw std::runtime_error("--wire: there is no port " + found.str(2));
  return static_cast<std::uint16_t>(port);
}

wire::wire(std::string const& address) {
  auto const found = port_named_in(address);
  auto const server_port = port_in(address);

  int const listener = stream();
  auto ours = loopback(0);
  socklen_t size = sizeof ours;
  if (::bind(listener, reinterpret_cast<sockaddr const*>(&ours), size) != 0 ||
      ::listen(listener, SOMAXCONN) != 0 ||
      ::getsockname(listener, reinterpret_cast<sockaddr*>(&ours), &size) != 0)
    fail("listen");
  address_ =
      found.prefix().str() + found.str(1) + std::to_string(ntohs(ours.sin_port)) + found.suffix().str();

  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail("socketpair");
  auto const parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail("fork");
  if (pid_ == 0) {
    be_child_of(parent, "the wire");
    ::close(ends[0]);
    try {
      forward(listener, server_port, ends[1]);
    } catch (std::exception const&) {  // order() is told by the end of the socket
    }
    ::_exit(0);
  }
  ::close(listener);
  ::close(ends[1]);
  orders_ = ends[0];
}

wire::~wire() {
  ::close(orders_);
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void wire::order(char what) {
  if (::send(orders_, &what, 1, MSG_NOSIGNAL) != 1 || ::read(orders_, &what, 1) != 1)
    throw std::runtime_error("the process between clients and server has ended");
}

void wire::lose_answers(std::chrono::milliseconds length) {
  order(hush);
  pass(length);  // the fault
  order(cut);
}

void wire::lose_everything(std::chrono::milliseconds length) {
  order(silence);
  pass(length);  // the fault
  order(cut);
}

void wire::delay_answers(std::chrono::milliseconds length) {
  order(keep);
  pass(length);  // the fault
  order(deliver);
}

void wire::leave_half_open(std::chrono::milliseconds length) {
  order(reset);
  pass(length);  // the fault
  order(cut);
}

}  // namespace rowlock::torture
