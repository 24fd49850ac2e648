// For pvio's time limits. It needs mysql.h before.
#include <mysql.h>
// clang-format off
#include <ma_pvio.h>
// clang-format on
#include <fmt/format.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/session.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <rowlock/error.hpp>
#include <utility>

#include "backend/mysql/dialect.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/handshake.hpp"
#include "backend/mysql/own_socket.hpp"
#include "backend/mysql/session.hpp"
#include "backend/resolver.hpp"
#include "backend/soci/connect_string.hpp"
#include "backend/soci/libmariadb.hpp"
#include "backend/soci/seat.hpp"

namespace rowlock::backend::soci {
namespace {

struct limits {
  unsigned connect;
  unsigned read;
  unsigned write;
};

limits limits_of(MYSQL const& c) {
  return {c.options.connect_timeout, c.options.read_timeout, c.options.write_timeout};
}

void set_limits(MYSQL& c, limits const& l) {
  c.options.connect_timeout = l.connect;
  c.options.read_timeout = l.read;
  c.options.write_timeout = l.write;
  if (c.net.pvio == nullptr) return;
  // 0: no limit, in both.
  auto const set = c.net.pvio->methods->set_timeout;
  set(c.net.pvio, PVIO_READ_TIMEOUT, static_cast<int>(l.read));
  set(c.net.pvio, PVIO_WRITE_TIMEOUT, static_cast<int>(l.write));
}

/// mariadb_reconnect(), to the handshake's address.
bool reconnected(MYSQL& c, mysql::handshake& watched) {
  if (watched.address().empty()) return ::mariadb_reconnect(&c) == 0;
  // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): the library's own way
  auto* const room = static_cast<char*>(std::malloc(watched.host_room()));
  if (room == nullptr) throw std::bad_alloc();
  auto* const own = std::exchange(c.host, room);
  watched.write_host(room);
  bool const done = ::mariadb_reconnect(&c) == 0;  // on success it has freed the room, after a copy
  if (!done) c.host = own;
  std::free(done ? own : room);  // NOLINT(cppcoreguidelines-no-malloc): the library's own way
  return done;
}

/// Ends the connection, and connects with the same parameters. The library counts whole seconds for each
/// step: the handshake ends them at the deadline. @throws error
void reconnect(MYSQL& c, unsigned long flags, boot_time_point deadline, mysql::handshake& watched,
               std::string const& where) {
  auto const left = std::chrono::ceil<std::chrono::seconds>(deadline - boot_clock::now()).count();
  auto const seconds = static_cast<unsigned>(std::clamp<std::int64_t>(left, 1, 86'400));
  auto const given = limits_of(c);
  hang_up(c);
  set_limits(c, {seconds, seconds, seconds});
  c.client_flag = flags;
  // Otherwise the library refuses to end an open transaction.
  c.server_status &= ~static_cast<unsigned>(SERVER_STATUS_IN_TRANS);
  c.options.reconnect = 1;
  bool const failed = !reconnected(c, watched);
  // No reconnect by the library: the session's settings would be lost.
  c.options.reconnect = 0;
  set_limits(c, given);
  if (failed) throw mysql::connect_error(refusal_of(c), where, watched.why());
}

bool verifies(MYSQL const& c, unsigned long flags) {
  return c.options.use_ssl != 0 && (flags & CLIENT_SSL_VERIFY_SERVER_CERT) != 0;
}

/// Calls connect(handshake, until) for each of the host's addresses, until one is reached.
template <class Connect>
void at_one_address(MYSQL const& c, bool verified, std::string const& where, boot_time_point deadline,
                    Connect const& connect) {
  if (c.unix_socket != nullptr || c.host == nullptr || *c.host == '\0') {
    mysql::handshake watched(deadline, verified, {});
    return connect(watched, deadline);
  }
  std::string const host = c.host;
  backend::at_one_address(host, where, deadline, [&](std::string const& address, boot_time_point until) {
    mysql::handshake watched(until, verified, {.host = host, .address = address});
    connect(watched, until);
  });
}

std::shared_ptr<mysql::own_socket> connect_ours(MYSQL& c, unsigned long flags, boot_time_point deadline,
                                                std::string const& where) {
  std::shared_ptr<mysql::own_socket> socket;
  at_one_address(c, verifies(c, flags), where, deadline,
                 [&](mysql::handshake& watched, boot_time_point until) {
                   watched.allow(c);
                   reconnect(c, flags, until, watched, where);
                   socket = watched.socket();
                 });
  return socket ? socket : mysql::own_socket::of(::mysql_get_socket(&c));
}

std::string text(char const* t) { return t == nullptr ? "" : t; }

class mysql_seat final : public seat, public source {
 public:
  mysql_seat(MYSQL& c, std::optional<std::string> database)
      : native_(c),
        database_(std::move(database)),
        option_flags_(c.options.client_flag),
        longest_packet_(c.options.max_allowed_packet),
        flags_(c.client_flag & ~static_cast<unsigned long>(CLIENT_REMEMBER_OPTIONS)),
        reconnects_(c.options.reconnect),
        character_set_(c.charset->csname),
        collation_(c.charset->name),
        description_(c.unix_socket == nullptr
                         ? fmt::format("mysql host={} port={} db={} user={}", text(c.host), c.port,
                                       database_.value_or(""), text(c.user))
                         : fmt::format("mysql unix_socket={} db={} user={}", c.unix_socket,
                                       database_.value_or(""), text(c.user))) {}

  source& native() noexcept override { return *this; }
  void vacate() noexcept override { hang_up(native_); }

  std::unique_ptr<connection> connect(boot_time_point deadline) override {
    name_database();
    auto const socket =
        connect_ours(native_, flags_ | CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS, deadline, description_);
    auto channel = channel_over(native_);
    return std::make_unique<mysql::session>(std::move(channel), socket, description_, deadline);
  }
  dialect const& sql() const noexcept override { return mysql::mysql_dialect(); }
  std::string describe() const override { return description_; }

  void restore(boot_time_point deadline) noexcept override {
    try {
      mysql::handshake::leave(native_);
      native_.options.client_flag = option_flags_;
      native_.options.max_allowed_packet = longest_packet_;
      name_database();
      at_one_address(native_, verifies(native_, flags_), description_, deadline,
                     [&](mysql::handshake& watched, boot_time_point until) {
                       mysql::handshake::watch(native_);
                       reconnect(native_, flags_, until, watched, description_);
                       restore_names();
                     });
    } catch (std::exception const&) {
      hang_up(native_);  // the program's next use of the session fails
    }
    mysql::handshake::leave(native_);
    native_.options.reconnect = reconnects_;
  }

 private:
  // The library follows each USE, also the program's, and would connect to that database.
  void name_database() {
    char* const named = database_ ? ::strdup(database_->c_str()) : nullptr;
    if (database_ && named == nullptr) throw std::bad_alloc();
    std::free(native_.db);  // NOLINT(cppcoreguidelines-no-malloc): the library's own way
    native_.db = named;
  }

  // The library has our session's character set, and SET NAMES alone takes the server's default collation.
  // The greeting of the program's connection named the library's default collation. The server accepts it,
  // but MariaDB since 11.2 takes its own default (character_set_collations), as after SET NAMES alone. [C35]
  void restore_names() {
    auto const names =
        fmt::format("SET NAMES {0} COLLATE {1} /*M!110201 , NAMES {0} */", character_set_, collation_);
    if (::mysql_set_character_set(&native_, character_set_.c_str()) != 0 ||
        ::mysql_real_query(&native_, names.data(), names.size()) != 0)
      throw refusal_of(native_);
  }

  MYSQL& native_;
  std::optional<std::string> database_;  ///< as the connect string names it
  unsigned long option_flags_;           ///< whether a server may ask for a file
  unsigned long longest_packet_;
  unsigned long flags_;
  my_bool reconnects_;
  std::string character_set_;
  std::string collation_;
  std::string description_;
};

}  // namespace

std::unique_ptr<seat> make_mysql_seat(::soci::session& s) {
  // Not dynamic_cast: the type's information is not exported.
  auto* const native = static_cast<::soci::mysql_session_backend&>(*s.get_backend()).conn_;
  if (native == nullptr || native->host_info == nullptr)
    throw error(errc::invalid_argument,
                "a session of the soci::connection_pool was never connected: reconnect() it");
  return std::make_unique<mysql_seat>(*native, mysql_database_in(connect_string_of(s)));
}

}  // namespace rowlock::backend::soci
