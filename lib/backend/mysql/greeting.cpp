#include "backend/mysql/greeting.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <span>

namespace rowlock::backend::mysql {
namespace {

constexpr std::size_t head = 4;  // the body's length in three bytes, and a sequence number

std::size_t number_at(std::string_view text, std::size_t at, std::size_t bytes) {
  std::size_t out = 0;
  while (bytes-- > 0) out = out << 8U | static_cast<unsigned char>(text[at + bytes]);
  return out;
}

std::size_t size_of_packet(std::string_view text) { return head + number_at(text, 0, 3); }

// 65535 is a report of progress, which no server may send yet.
bool is_error(std::string_view body) { return body.size() > 3 && number_at(body, 1, 2) != 0xffff; }

// Version 10, its text, a number, 8 bytes of the scramble, the server's abilities, the rest of the scramble,
// a log-in method's name. https://mariadb.com/kb/en/connection/
bool is_version_10(std::string_view body) {
  constexpr std::size_t before_scramble = 4;
  constexpr std::size_t first_part = 8;
  constexpr std::size_t shortest_scramble = 21;
  constexpr std::size_t protocol_41 = 1U << 9U;
  constexpr std::size_t named_method = 1U << 19U;
  auto const version = body.find('\0');
  if (version == body.npos) return false;
  auto const scramble = version + 1 + before_scramble;
  auto const abilities = scramble + first_part + 1;
  auto const second_part = abilities + 18;
  if (body.size() < second_part + shortest_scramble - first_part) return false;
  auto const able = number_at(body, abilities, 2) | number_at(body, abilities + 5, 2) << 16U;
  if ((able & protocol_41) == 0) return false;
  if ((able & named_method) == 0) return true;
  auto const size = number_at(body, abilities + 7, 1);
  return size >= shortest_scramble && second_part - first_part + size < body.size();
}

/// @return the bytes there; 0 at the connection's end, negative if there are none
ssize_t peek(int fd, std::span<char> room) {
  ssize_t got = 0;
  do {
    got = ::recv(fd, room.data(), room.size(), MSG_PEEK | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got;
}

/// Waits for so many bytes, or the connection's end. @return false at the deadline
bool wait_for_bytes(int fd, std::size_t many, boot_time_point deadline) {
  using namespace std::chrono;
  int const low = static_cast<int>(many);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
  auto const left =
      std::clamp<std::int64_t>(ceil<milliseconds>(deadline - boot_clock::now()).count(), 0, 86'400'000);
  pollfd one{fd, POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&one, 1, static_cast<int>(left));
  } while (ready < 0 && errno == EINTR);
  int const any = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &any, sizeof any);
  return ready != 0;
}

}  // namespace

bool is_greeting(std::string_view packet) {
  if (packet.size() <= head || packet.size() < size_of_packet(packet) || packet[3] != 0) return false;
  auto const body = packet.substr(head, size_of_packet(packet) - head);
  if (body.empty()) return false;
  if (body[0] == '\xff') return is_error(body);
  return body[0] == 10 && is_version_10(body);
}

bool expect_greeting(int fd, boot_time_point deadline) {
  std::array<char, longest_greeting> room{};
  for (std::size_t wanted = head;;) {
    if (!wait_for_bytes(fd, wanted, deadline)) return false;
    auto const got = peek(fd, room);
    if (got <= 0) return true;  // the client library reports why
    std::string_view const so_far(room.data(), static_cast<std::size_t>(got));
    if (so_far.size() < wanted) return false;  // ended within the packet
    if (size_of_packet(so_far) > room.size()) return false;
    if (so_far.size() >= size_of_packet(so_far)) return is_greeting(so_far);
    wanted = size_of_packet(so_far);
  }
}

}  // namespace rowlock::backend::mysql
