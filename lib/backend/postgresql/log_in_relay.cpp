#include "backend/postgresql/log_in_relay.hpp"

#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "backend/postgresql/native.hpp"

namespace rowlock::backend::postgresql {
namespace {

bool by_tcp(int fd) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.ss_family != AF_UNIX;
}

ino_t inode_of(int fd) {
  struct stat found {};
  return ::fstat(fd, &found) == 0 ? found.st_ino : 0;
}

SSL* tls_of(PGconn* c) { return static_cast<SSL*>(PQsslStruct(c, "OpenSSL")); }

// The server has proved its name by a certificate, or by Kerberos.
bool proves_itself(PGconn* c) {
  if (PQgssEncInUse(c) != 0) return true;
  if (PQsslInUse(c) == 0) return false;
  std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> const all(PQconninfo(c), &PQconninfoFree);
  for (auto const* o = all.get(); o != nullptr && o->keyword != nullptr; ++o)
    if (o->keyword == std::string_view("sslmode"))
      return o->val != nullptr && o->val == std::string_view("verify-full");
  return false;
}

}  // namespace

log_in_relay::~log_in_relay() { drop(); }

void log_in_relay::drop() noexcept {
  if (int const fd = std::exchange(server_, -1); fd >= 0) ::close(fd);
  if (int const fd = std::exchange(inner_, -1); fd >= 0) ::close(fd);
}

bool log_in_relay::stands() const { return server_ >= 0 && inode_of(PQsocket(libpq_)) == outer_; }

void log_in_relay::leave() {
  if (stands() && ::dup3(server_, PQsocket(libpq_), O_CLOEXEC) < 0)
    throw log_in_refused(errc::unreachable, "no descriptor is left for the connection");
  drop();
}

// libpq may try one address after the other, or once more without encryption, with a new socket each time.
void log_in_relay::follow() {
  if (server_ >= 0 && !stands()) drop();
  // Connected, and nothing was said yet.
  if (server_ < 0 && PQstatus(libpq_) == CONNECTION_MADE && by_tcp(PQsocket(libpq_))) stand_between();
}

void log_in_relay::stand_between() {
  int pair[2] = {-1, -1};
  server_ = ::fcntl(PQsocket(libpq_), F_DUPFD_CLOEXEC, 0);
  bool const made =
      server_ >= 0 && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0;
  bool const placed = made && ::dup3(pair[1], PQsocket(libpq_), O_CLOEXEC) >= 0;
  if (made) ::close(pair[1]);
  inner_ = pair[0];
  if (!placed) throw log_in_refused(errc::unreachable, "no descriptor is left for the connection");
  outer_ = inode_of(PQsocket(libpq_));
  ended_ = false;
  left_inside_ = 0;
  filter_.emplace();
}

bool log_in_relay::pass_on_to_server(boot_time_point deadline) {
  std::array<char, 16'384> room{};
  for (;;) {
    auto const got = ::recv(inner_, room.data(), room.size(), 0);
    if (got <= 0) return true;
    std::string_view text(room.data(), static_cast<std::size_t>(got));
    filter_->sent(text);
    while (!text.empty()) {
      auto const sent = ::send(server_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        text.remove_prefix(static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EINTR) {
        if (!wait_for(server_, POLLOUT, deadline)) return false;
      } else {
        return true;  // reading will tell
      }
    }
  }
}

void log_in_relay::pass_on_to_libpq(std::string_view text) {
  // At most a megabyte comes in all, and libpq reads what there is before it asks for more.
  while (!text.empty()) {
    auto const sent = ::send(inner_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw log_in_refused(errc::unreachable, "the server sends too much at once");
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

bool log_in_relay::readable_for_libpq() const {
  pollfd one{PQsocket(libpq_), POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

// libpq reads one record, or what is left of it, each time: this looks at the same one before.
void log_in_relay::look_inside() {
  auto* const tls = tls_of(libpq_);
  if (tls == nullptr || SSL_is_init_finished(tls) != 1 || proves_itself(libpq_)) return;
  std::array<char, 20'000> room{};
  int const got = SSL_peek(tls, room.data(), static_cast<int>(room.size()));
  if (got <= 0) return;
  filter_->decrypted(std::string_view(room.data(), static_cast<std::size_t>(got)).substr(left_inside_));
}

bool log_in_relay::wait(PostgresPollingStatusType next, boot_time_point deadline) {
  follow();
  if (server_ < 0)
    return wait_for(PQsocket(libpq_), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);
  if (!pass_on_to_server(deadline)) return false;
  if (next != PGRES_POLLING_READING) return true;
  auto* const tls = tls_of(libpq_);
  left_inside_ = tls == nullptr ? 0 : static_cast<std::size_t>(SSL_pending(tls));
  std::array<char, 16'384> room{};
  while (left_inside_ == 0 && !readable_for_libpq()) {
    if (!wait_for(server_, POLLIN, deadline)) return false;
    auto const got = ::recv(server_, room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) {
      ::shutdown(inner_, SHUT_WR);  // what libpq makes of it
      return true;
    }
    pass_on_to_libpq(filter_->received({room.data(), static_cast<std::size_t>(got)}));
  }
  if (filter_->encrypted()) look_inside();
  return true;
}

}  // namespace rowlock::backend::postgresql
