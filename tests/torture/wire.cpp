#include "wire.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

sockaddr_in loopback(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<std::uint16_t>(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

struct socket_fd {
  explicit socket_fd(int f = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) : fd(f) { REQUIRE(fd >= 0); }
  socket_fd(socket_fd const&) = delete;
  socket_fd& operator=(socket_fd const&) = delete;
  ~socket_fd() { ::close(fd); }
  bool has_something(std::chrono::milliseconds wait) const {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, static_cast<int>(wait.count())) == 1;
  }
  int fd;
};

int port_of(std::string const& address) { return std::stoi(address.substr(address.rfind('=') + 1)); }

int listening(socket_fd const& s) {
  auto at = loopback(0);
  socklen_t size = sizeof at;
  REQUIRE(::bind(s.fd, reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::listen(s.fd, 5) == 0);
  REQUIRE(::getsockname(s.fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  return ntohs(at.sin_port);
}

/// A server that accepts, and a wire to it.
struct line {
  socket_fd const listener;
  int const port = listening(listener);
  wire w{"host=127.0.0.1 port=" + std::to_string(port)};
  sockaddr_in const by_way = loopback(port_of(w.address()));

  void connect(socket_fd const& client) const {
    REQUIRE(::connect(client.fd, reinterpret_cast<sockaddr const*>(&by_way), sizeof by_way) == 0);
  }
  socket_fd accepted() const { return socket_fd(::accept(listener.fd, nullptr, nullptr)); }
};

void say(socket_fd const& s) { REQUIRE(::send(s.fd, "x", 1, MSG_NOSIGNAL) == 1); }

/// What comes within so long; 0: that it is over.
std::optional<ssize_t> heard(socket_fd const& s, std::chrono::milliseconds wait) {
  if (!s.has_something(wait)) return {};
  char byte = 0;
  return std::max<ssize_t>(0, ::read(s.fd, &byte, 1));
}

}  // namespace

TEST_CASE("wire: a request arrives, its answer is lost, and the connection ends") {
  line l;
  REQUIRE(port_of(l.w.address()) != l.port);
  socket_fd const client;
  l.connect(client);
  auto const server = l.accepted();
  auto const answered = [&](std::chrono::milliseconds patience) {
    say(client);
    REQUIRE(heard(server, 60s) == 1);  // each request arrives
    say(server);
    return heard(client, patience) == 1;
  };
  CHECK(answered(60s));
  {
    std::jthread const loses([&] { l.w.lose_answers(6s); });
    bool one_was_lost = false;
    while (!one_was_lost) one_was_lost = !answered(1s);
    CHECK(one_was_lost);
  }
  CHECK(heard(client, 60s) == 0);

  // And those that come later are served.
  socket_fd const next;
  l.connect(next);
  auto const its = l.accepted();
  say(next);
  CHECK(heard(its, 60s) == 1);
}

TEST_CASE("wire: where everything is lost, nobody is told, nor who comes meanwhile, before it ends") {
  line l;
  socket_fd const client;
  l.connect(client);
  auto const server = l.accepted();
  say(client);
  REQUIRE(heard(server, 60s) == 1);
  socket_fd const late;
  {
    std::jthread const loses([&] { l.w.lose_everything(9s); });
    bool arrives = true;
    while (arrives) {
      say(client);
      arrives = heard(server, 1s).has_value();
    }
    say(server);
    CHECK(!heard(client, 1s));
    l.connect(late);
    auto const its = l.accepted();
    say(late);
    CHECK(!heard(its, 300ms));
    CHECK(heard(late, 60s) == 0);
  }
  CHECK(heard(client, 60s) == 0);
  CHECK(heard(server, 60s) == 0);
}

TEST_CASE("wire: answers that are kept back arrive at the end, and the connection goes on") {
  line l;
  socket_fd const client;
  l.connect(client);
  auto const server = l.accepted();
  int kept = 0;
  {
    std::jthread const keeps([&] { l.w.delay_answers(6s); });
    bool arrives = true;
    while (arrives) {
      say(client);
      REQUIRE(heard(server, 60s) == 1);  // each request arrives
      say(server);
      arrives = heard(client, 1s).has_value();
    }
    ++kept;
    say(server);
    ++kept;
  }
  for (; kept > 0; --kept) CHECK(heard(client, 60s) == 1);
  say(client);
  CHECK(heard(server, 60s) == 1);
  say(server);
  CHECK(heard(client, 60s) == 1);
}

TEST_CASE("wire: half-open, the client is told at once, and the server at the end; others are served") {
  line l;
  socket_fd const client;
  l.connect(client);
  auto const server = l.accepted();
  say(client);
  REQUIRE(heard(server, 60s) == 1);
  {
    std::jthread const leaves([&] { l.w.leave_half_open(6s); });
    CHECK(heard(client, 60s) == 0);
    CHECK(!heard(server, 200ms));
    socket_fd const next;
    l.connect(next);
    auto const its = l.accepted();
    say(next);
    CHECK(heard(its, 60s) == 1);
  }
  CHECK(heard(server, 60s) == 0);
}

TEST_CASE("wire: of a URL the port is replaced, and an address without one is refused") {
  CHECK(wire("mysql://user:p455@127.0.0.1:3306/db").address().rfind("mysql://user:p455@127.0.0.1:", 0) == 0);
  CHECK(wire("mysql://user:p455@127.0.0.1:3306/db").address().find(":3306/") == std::string::npos);
  CHECK(wire("host=127.0.0.1 password=a:99 port=5432")
            .address()
            .rfind("host=127.0.0.1 password=a:99 port=", 0) == 0);
  CHECK_THROWS_AS(wire("host=127.0.0.1 dbname=x"), std::runtime_error);
  CHECK_THROWS_AS(wire("host=127.0.0.1 port=543210"), std::runtime_error);
  CHECK_THROWS_AS(wire("host=db.example port=5432"), std::runtime_error);
  CHECK_THROWS_AS(wire("mysql://user:p455@db.example:3306/db"), std::runtime_error);
  CHECK_THROWS_AS(wire("sqlite:locks.db"), std::runtime_error);
}

}  // namespace rowlock::torture
