#include "backend/mysql/handshake.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "backend/mysql/greeting.hpp"
#include "base/never_destroyed.hpp"
#include "base/per_process.hpp"

namespace rowlock::backend::mysql {
namespace {

// The library searches the list for a method's name as a part of the text: no refused name may be a part of
// an allowed one. Left out: mysql_old_password (its scramble gives the password away), dialog (asks at the
// terminal), auth_gssapi_client.
constexpr char const* methods = "mysql_native_password,caching_sha2_password,sha256_password,client_ed25519";
constexpr char const* methods_if_verified =
    "mysql_native_password,caching_sha2_password,sha256_password,client_ed25519,mysql_clear_password";

// In bytes: far more than a row of ours, or a packet before the log-in.
constexpr unsigned long longest_packet = 2u << 20u;

thread_local handshake* current = nullptr;

int wait_io(my_socket fd, my_bool is_read, int timeout) {
  auto* const mine = handshake::of_this_thread();
  if (timeout <= 0) timeout = -1;
  if (mine != nullptr) timeout = mine->wait_on(fd, timeout);
  pollfd one{fd, static_cast<short>(is_read != 0 ? POLLIN : POLLOUT), 0};
  int ready = 0;
  do {
    ready = ::poll(&one, 1, timeout);
  } while (ready == -1 && errno == EINTR);
  if (ready == 0) errno = ETIMEDOUT;
  if (mine == nullptr || mine->may_read(is_read == 0 && one.revents == POLLOUT)) return ready;
  errno = EPROTO;
  return -1;
}

// A plugin of the client library, chosen by the beginning of a host's name. <mysql/client_plugin.h> includes
// headers that Debian does not install.
struct connection_plugin {
  int type = 103;  // MARIADB_CLIENT_CONNECTION_PLUGIN
  unsigned interface_version = 0x0100;
  char const* name = nullptr;
  char const* author = "rowlock";
  char const* description = "rowlock looks at its own connections before they are made";
  unsigned version[3] = {1, 0, 0};
  char const* license = "MIT";
  void* api = nullptr;
  void* init = nullptr;
  void* deinit = nullptr;
  void* options = nullptr;
  MYSQL* (*connect)(MYSQL*, char const*, char const*, char const*, char const*, unsigned, char const*,
                    unsigned long) = nullptr;
  void* close = nullptr;
  void* set_options = nullptr;
  int (*before_command)(MYSQL*, enum_server_command, char const*, std::size_t, my_bool, void*) = nullptr;
  void* reconnect = nullptr;
  void* reset = nullptr;
};

MYSQL* connect_allowed(MYSQL* c, char const* host, char const* user, char const* password, char const* db,
                       unsigned port, char const*, unsigned long flags) {
  char const* path = nullptr;
  if (auto* const mine = handshake::of_this_thread()) {
    mine->allow(*c);
    if (!mine->address().empty()) host = mine->host();
    if (!mine->unix_socket().empty()) {
      path = mine->unix_socket().c_str();
      unsigned const by_socket = MYSQL_PROTOCOL_SOCKET;
      ::mysql_optionsv(c, MYSQL_OPT_PROTOCOL, &by_socket);
    }
  }
  return c->methods->db_connect(c, host, user, password, db, port, path, flags);
}

int no_other_connection(MYSQL*, enum_server_command, char const*, std::size_t, my_bool, void*) { return 0; }

// Two libraries of one process can have this code.
std::string const& scheme_name() {
  static char const here = 0;
  static auto const& name =
      base::never_destroyed<std::string>(fmt::format("rowlock{:x}", reinterpret_cast<std::uintptr_t>(&here)));
  return name;
}

struct close_connection {
  void operator()(MYSQL* c) const noexcept { ::mysql_close(c); }
};

}  // namespace
}  // namespace rowlock::backend::mysql

extern "C" struct st_mysql_client_plugin* STDCALL
mysql_client_register_plugin(struct st_mysql*, struct st_mysql_client_plugin*);

namespace rowlock::backend::mysql {
namespace {

// Each time: another user of the client library can have ended it, with its plugins.
void register_scheme() {
  static connection_plugin ours = [] {
    connection_plugin p;
    p.name = scheme_name().c_str();
    p.connect = &connect_allowed;
    p.before_command = &no_other_connection;
    return p;
  }();
  std::unique_ptr<MYSQL, close_connection> const any(::mysql_init(nullptr));
  if (any) ::mysql_client_register_plugin(any.get(), reinterpret_cast<st_mysql_client_plugin*>(&ours));
}

}  // namespace

handshake::handshake(boot_time_point deadline, bool verified, way to)
    : deadline_(deadline), verified_(verified), to_(std::move(to)) {
  current = this;
}

handshake::~handshake() { current = nullptr; }

handshake* handshake::of_this_thread() noexcept { return current; }

void handshake::allow(MYSQL& c) {
  connection_ = &c;
  unsigned const no = 0;
  unsigned long const longest = longest_packet;
  watch(c);
  ::mysql_optionsv(&c, MARIADB_OPT_RESTRICTED_AUTH, verified_ ? methods_if_verified : methods);
  ::mysql_optionsv(&c, MYSQL_OPT_LOCAL_INFILE, &no);
  ::mysql_optionsv(&c, MYSQL_OPT_MAX_ALLOWED_PACKET, &longest);
}

void handshake::watch(MYSQL& c) {
  ::mysql_optionsv(&c, MARIADB_OPT_IO_WAIT, reinterpret_cast<void*>(&wait_io));
}

void handshake::leave(MYSQL& c) noexcept {
  ::mysql_optionsv(&c, MARIADB_OPT_IO_WAIT, nullptr);
  ::mysql_optionsv(&c, MARIADB_OPT_RESTRICTED_AUTH, nullptr);
}

std::string handshake::scheme_url(std::string const& host, int port) {
  register_scheme();
  return fmt::format("tcp://[{}://{}]:{}", scheme_name(), host, port);
}

char const* handshake::host() {
  room_.resize(host_room());
  write_host(room_.data());
  return room_.data();
}

void handshake::write_host(char* room) noexcept {
  to_.address.copy(room, to_.address.size());
  room[to_.address.size()] = '\0';
  host_ = room;
}

// The library looks up the host before its first wait, and copies the name after its wait for the first byte.
// (tests/outages/names.cpp: TLS is refused if that changes.)
void handshake::name_host() noexcept {
  auto* const room = std::exchange(host_, nullptr);
  if (room == nullptr) return;
  to_.host.copy(room, to_.host.size());
  room[to_.host.size()] = '\0';
}

int handshake::wait_on(int fd, int timeout) {
  name_host();
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - boot_clock::now()).count();
  if (!socket_ || !socket_->is(fd)) {
    limit_.reset();
    socket_ = own_socket::of(fd);
    connecting_ = true;
    // Limits on waits do not end a server that never stops sending.
    if (socket_)
      limit_.emplace(base::per_process<wire_watch>(), socket_, deadline_, most_early_bytes);
    else
      return 0;
  }
  auto const rest = static_cast<int>(std::clamp<std::int64_t>(left, 0, 86'400'000));
  return timeout < 0 ? rest : std::min(timeout, rest);
}

bool handshake::may_read(bool writable) {
  // The first wait on a TCP socket is for its connection: nothing was read yet.
  if (!std::exchange(connecting_, false) || !writable) return true;
  no_greeting_ = !expect_greeting(socket_->fd(), deadline_);
  return !no_greeting_;
}

MYSQL* handshake::connection() const noexcept {
  if (connection_ == nullptr || !socket_ || !socket_->is(static_cast<int>(::mysql_get_socket(connection_))))
    return nullptr;
  return connection_;
}

std::string handshake::why() const {
  if (socket_ && socket_->overrun())
    return fmt::format("; it sent more than {} KiB before the log-in was done, so the connection was closed",
                       most_early_bytes >> 10u);
  if (boot_clock::now() >= deadline_) return "; the server did not answer in time";
  return no_greeting_ ? "; what answers there does not greet as MySQL and MariaDB do: check host and port"
                      : "";
}

}  // namespace rowlock::backend::mysql
