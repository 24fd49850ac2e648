#include "hostile/fake_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace rowlock::test {

void peer::expect_within(std::chrono::milliseconds time) {
  timeval limit{};
  limit.tv_usec = static_cast<suseconds_t>(time.count() * 1000);
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

bool peer::say(std::string_view text) { return change_ ? send(change_(text)) : send(text); }

bool peer::send(std::string_view text) {
  while (!text.empty()) {
    auto const sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string peer::hear(std::size_t size) {
  std::string out;
  std::array<char, 4096> room{};
  while (out.size() < size) {
    auto const got = ::recv(fd_, room.data(), std::min(room.size(), size - out.size()), 0);
    if (got <= 0) break;
    out.append(room.data(), static_cast<std::size_t>(got));
  }
  return out;
}

std::string peer::hear_all() { return hear(std::string::npos); }

void peer::drip(std::string_view text) {
  for (std::size_t at = 0;; at = (at + 1) % text.size()) {
    if (!say(text.substr(at, 1))) return;
    pollfd one{fd_, POLLRDHUP, 0};
    if (::poll(&one, 1, 200) > 0) return;
  }
}

void peer::flood(std::string const& text) {
  std::string many;
  while (many.size() < 100'000) many += text;
  while (say(many)) {
  }
}

fake_server::fake_server(std::function<void(peer&)> talk)
    : talk_(std::move(talk)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  if (listener_ < 0 || ::bind(listener_, address, size) != 0 || ::listen(listener_, 50) != 0 ||
      ::getsockname(listener_, address, &size) != 0)
    throw std::runtime_error("no fake server");
  port_ = ntohs(here.sin_port);
  accepter_ = std::jthread([this] { accept_all(); });
}

fake_server::~fake_server() {
  ::shutdown(listener_, SHUT_RDWR);
  accepter_.join();
  {
    std::lock_guard const guard(mutex_);
    over_ = true;
    for (int const fd : fds_) ::shutdown(fd, SHUT_RDWR);
  }
  talks_.clear();
  for (int const fd : fds_) ::close(fd);
  ::close(listener_);
}

void fake_server::accept_all() {
  for (;;) {
    int const fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    // As real servers have it: a reply said in pieces would wait 40 ms for the client's acknowledgement.
    int const at_once = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    std::lock_guard const guard(mutex_);
    fds_.push_back(fd);
    talks_.emplace_back([this, fd] {
      peer client(fd);
      talk_(client);
      ::shutdown(fd, SHUT_RDWR);
    });
  }
}

void fake_server::note(std::string_view heard) {
  std::lock_guard const guard(mutex_);
  noted_ += heard;
}

std::string fake_server::noted() const {
  std::lock_guard const guard(mutex_);
  return noted_;
}

namespace mysql_says {
namespace {

std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (int const one : list) out += static_cast<char>(one);
  return out;
}

std::string with_length(std::string const& text) { return bytes({static_cast<int>(text.size())}) + text; }

}  // namespace

std::string packet(int number, std::string_view payload) {
  auto const size = static_cast<int>(payload.size());
  return bytes({size & 255, size >> 8 & 255, size >> 16 & 255, number}).append(payload);
}

std::string greeting(std::string const& method) {
  // Everything that a client may like but encryption: LOCAL_FILES, PROTOCOL_41, SECURE_CONNECTION,
  // PLUGIN_AUTH, ...
  return packet(0, bytes({10}) + "5.5.5-10.11.6-MariaDB" + bytes({0, 7, 0, 0, 0}) + "abcdefgh" +
                       bytes({0, 0x8f, 0xa2, 45, 2, 0, 0x0b, 0, 21}) + std::string(10, '\0') +
                       "ijklmnopqrst" + bytes({0}) + method + bytes({0}));
}

std::string log_in_otherwise(int number, std::string const& method) {
  return packet(number, bytes({254}) + method + bytes({0}) + "abcdefghijklmnopqrst" + bytes({0}));
}

std::string ok(int number, bool more) { return packet(number, bytes({0, 0, 0, more ? 10 : 2, 0, 0, 0})); }

std::string refused(int number, std::string const& message) {
  return packet(number, bytes({255, 1045 & 255, 1045 >> 8}) + "#28000" + message);
}

std::string column(int number, char type) {
  return packet(number, with_length("def") + with_length("") + with_length("") + with_length("") +
                            with_length("a") + with_length("a") + bytes({12, 45, 0, 255, 0, 0, 0}) + type +
                            bytes({0, 0, 0, 0, 0}));
}

std::string end_of_columns(int number, bool more) {
  return packet(number, bytes({254, 0, 0, more ? 10 : 2, 0}));
}

std::string columns(int many, int number) {
  auto out = packet(number, bytes({many}));
  for (int i = 0; i < many; ++i) out += column(++number);
  return out + end_of_columns(number + 1);
}

std::string one_row(int number, std::string const& text) { return packet(number, with_length(text)); }

}  // namespace mysql_says

std::string hear_mysql_packet(peer& client) {
  auto const head = client.hear(4);
  if (head.size() < 4) return {};
  auto const byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(head[at]));
  };
  return client.hear(byte(0) | byte(1) << 8 | byte(2) << 16);
}

namespace postgresql_says {

std::string number(std::uint32_t n) {
  auto const wire = htonl(n);
  std::string out(4, '\0');
  std::memcpy(out.data(), &wire, 4);
  return out;
}

std::string message(char type, std::string_view payload) {
  return type + number(static_cast<std::uint32_t>(payload.size() + 4)).append(payload);
}

std::string log_in_by(std::uint32_t method, std::string_view more) {
  return message('R', number(method).append(more));
}

std::string logged_in(std::string const& version) {
  auto const setting = [](std::string name, std::string const& text) {
    return message('S', name + '\0' + text + '\0');
  };
  return log_in_by(0) + setting("server_version", version) + setting("client_encoding", "UTF8") +
         setting("standard_conforming_strings", "on") + message('K', number(7) + number(8)) +
         message('Z', "I");
}

std::string refused(std::string const& text) {
  std::string fields;
  for (auto const& one : {std::string("SFATAL"), std::string("VFATAL"), std::string("C28P01"), 'M' + text})
    fields += one + '\0';
  return message('E', fields + '\0');
}

namespace {
std::string two_bytes(std::size_t n) { return {static_cast<char>(n >> 8U), static_cast<char>(n & 255U)}; }
}  // namespace

std::string columns(std::size_t many) {
  auto all = two_bytes(many);
  for (std::size_t i = 0; i < many; ++i)
    all += std::string("a\0", 2) + number(0) + std::string("\0\0", 2) + number(25) +
           std::string("\377\377", 2) + number(0xffffffff) + std::string("\0\0", 2);
  return message('T', all);
}

std::string row(std::vector<std::string> const& columns) {
  auto all = two_bytes(columns.size());
  for (auto const& one : columns) all += number(static_cast<std::uint32_t>(one.size())) + one;
  return message('D', all);
}

std::string one_row(std::string const& text) { return row({text}); }

std::string completed(std::string const& tag) { return message('C', tag + '\0'); }

}  // namespace postgresql_says

void hear_postgresql_start(peer& client) {
  for (;;) {
    auto const head = client.hear(8);
    if (head.size() < 8) return;
    std::uint32_t size = 0;
    std::uint32_t code = 0;
    std::memcpy(&size, head.data(), 4);
    std::memcpy(&code, head.data() + 4, 4);
    client.hear(ntohl(size) - 8);
    if (ntohl(code) != 80877103 && ntohl(code) != 80877104) return;
    if (!client.say("N")) return;
  }
}

}  // namespace rowlock::test
