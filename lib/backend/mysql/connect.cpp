#include "backend/mysql/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backend/mysql/connector.hpp"
#include "backend/mysql/handshake.hpp"
#include "backend/mysql/option_file.hpp"
#include "backend/resolver.hpp"

namespace rowlock::backend::mysql {
namespace {

using namespace std::chrono_literals;

// In seconds: the server itself waits up to two for a row.
constexpr int shortest_reply = 3;

int whole_seconds(std::chrono::nanoseconds left) {
  return static_cast<int>(
      std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(left).count(), 1, 86'400));
}

sql::ConnectOptionsMap options_for(settings const& s, endpoint const* place, int seconds) {
  sql::ConnectOptionsMap o;
  auto const text = [&](char const* name, std::string const& value) { o[name] = sql::SQLString(value); };
  text("hostName", place == nullptr ? handshake::scheme_url("localhost", 0)
                                    : handshake::scheme_url(place->host, place->port));
  text("userName", s.user);
  auto password = s.password();
  if (!password) password = password_of_option_file();
  if (password) text("password", *password);
  if (!s.database.empty()) text("schema", s.database);
  o["CLIENT_FOUND_ROWS"] = true;
  o["CLIENT_MULTI_STATEMENTS"] = true;
  o["OPT_RECONNECT"] = false;
  o["OPT_CONNECT_TIMEOUT"] = seconds;
  o["OPT_READ_TIMEOUT"] = std::max(seconds, shortest_reply);
  o["OPT_WRITE_TIMEOUT"] = std::max(seconds, shortest_reply);
  if (s.encryption != tls::off) o["sslEnforce"] = true;
  if (s.encryption == tls::verified) o["sslVerify"] = true;
  if (!s.ssl_ca.empty()) text("sslCA", s.ssl_ca);
  if (!s.ssl_cert.empty()) text("sslCert", s.ssl_cert);
  if (!s.ssl_key.empty()) text("sslKey", s.ssl_key);
  return o;
}

std::unique_ptr<session> connect_with(sql::ConnectOptionsMap& options, settings const& s, way const& to,
                                      std::string const& where, boot_time_point deadline) {
  std::unique_ptr<session> made;
  {
    handshake watched(deadline, s.encryption == tls::verified, to);
    native_connection native;
    try {
      native = open(options);
    } catch (sql::SQLException const& e) {
      throw connect_error(as_refusal(e), where, watched.why());
    }
    made = std::make_unique<session>(channel_over(std::move(native), watched.connection()), watched.socket(),
                                     where, deadline);
  }
  // The connector goes on without encryption if the server has none.
  if (s.encryption != tls::off && made->cipher(deadline).empty())
    throw error(errc::access_denied,
                where + ": the server does not encrypt, and the URL's ssl-mode demands it");
  return made;
}

std::unique_ptr<session> connect_to(settings const& s, endpoint const* place, way const& to,
                                    std::string const& where, boot_time_point deadline) {
  constexpr int too_big_select = 1104;
  auto options = options_for(s, place, whole_seconds(deadline - boot_clock::now()));
  try {
    return connect_with(options, s, to, where, deadline);
  } catch (error const& e) {
    if (e.native_code() != too_big_select) throw;
  }
  // The server's max_join_size refuses the connector's own first query, before rowlock can lift it. Not for
  // every server: it costs a round trip.
  options["preInit"] = sql::SQLString("SET SESSION sql_big_selects = 1");
  return connect_with(options, s, to, where, deadline);
}

std::unique_ptr<session> connect_to_host(settings const& s, endpoint const& place, std::string const& where,
                                         boot_time_point deadline) {
  return at_one_address(place.host, where, deadline, [&](std::string const& address, boot_time_point until) {
    return connect_to(s, &place, {.host = place.host, .address = address}, where, until);
  });
}

}  // namespace

std::unique_ptr<session> connect(settings const& s, std::string const& where, boot_time_point deadline) {
  if (boot_clock::now() >= deadline) throw error(errc::unreachable, where + ": no time was left to connect");
  if (s.endpoints.empty()) return connect_to(s, nullptr, {.unix_socket = s.socket}, where, deadline);
  std::optional<error> problem;
  std::unique_ptr<session> reader;
  for (auto place = s.endpoints.begin(); place != s.endpoints.end(); ++place) {
    auto const now = boot_clock::now();
    if (now >= deadline) break;
    auto const share = now + (deadline - now) / (s.endpoints.end() - place);
    try {
      auto made = connect_to_host(s, *place, where, share);
      if (s.endpoints.size() == 1 || made->takes_writes()) return made;
      if (!reader) reader = std::move(made);
    } catch (error const& e) {
      problem = e;
    }
  }
  // The program then gets the server's own error about writing.
  if (reader) return reader;
  if (problem) throw *problem;
  throw error(errc::unreachable, where + ": no host answered in time");
}

}  // namespace rowlock::backend::mysql
