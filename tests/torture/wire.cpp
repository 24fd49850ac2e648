#include "wire.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
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

}  // namespace

TEST_CASE("wire: a request arrives, its answer is lost, and the connection ends") {
  socket_fd const listener;
  auto at = loopback(0);
  socklen_t size = sizeof at;
  REQUIRE(::bind(listener.fd, reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::listen(listener.fd, 5) == 0);
  REQUIRE(::getsockname(listener.fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
  wire w("host=127.0.0.1 port=" + std::to_string(ntohs(at.sin_port)));
  REQUIRE(port_of(w.address()) != ntohs(at.sin_port));

  socket_fd const client;
  auto const by_way = loopback(port_of(w.address()));
  REQUIRE(::connect(client.fd, reinterpret_cast<sockaddr const*>(&by_way), sizeof by_way) == 0);
  socket_fd const server(::accept(listener.fd, nullptr, nullptr));
  char byte = 'x';
  auto const answered = [&](std::chrono::milliseconds patience) {
    REQUIRE(::send(client.fd, &byte, 1, MSG_NOSIGNAL) == 1);
    REQUIRE(::read(server.fd, &byte, 1) == 1);  // each request arrives
    REQUIRE(::send(server.fd, &byte, 1, MSG_NOSIGNAL) == 1);
    if (!client.has_something(patience)) return false;
    REQUIRE(::read(client.fd, &byte, 1) == 1);
    return true;
  };
  CHECK(answered(10s));
  {
    std::jthread const loses([&] { w.lose_answers(2s); });
    bool one_was_lost = false;
    while (!one_was_lost) one_was_lost = !answered(300ms);
    CHECK(one_was_lost);
  }
  REQUIRE(client.has_something(10s));
  CHECK(::read(client.fd, &byte, 1) <= 0);

  // And those that come later are served.
  socket_fd const next;
  REQUIRE(::connect(next.fd, reinterpret_cast<sockaddr const*>(&by_way), sizeof by_way) == 0);
  socket_fd const its(::accept(listener.fd, nullptr, nullptr));
  REQUIRE(::send(next.fd, &byte, 1, MSG_NOSIGNAL) == 1);
  CHECK(its.has_something(10s));
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
