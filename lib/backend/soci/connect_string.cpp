#include "backend/soci/connect_string.hpp"

#include <fmt/format.h>
#include <soci/connection-parameters.h>
#include <soci/session.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <rowlock/error.hpp>
#include <utility>

namespace rowlock::backend::soci {
namespace {

// SOCI keeps it private. (An explicit instantiation may name a private member.)
using parameters_of_session = ::soci::connection_parameters(::soci::session::*);

template <parameters_of_session Member>
struct shown {
  friend parameters_of_session last_parameters() { return Member; }
};
parameters_of_session last_parameters();
template struct shown<&::soci::session::lastConnectParameters_>;

constexpr std::string_view blanks = " \t\r\n\v\f";

/// `name = value` pairs with blanks between them. A value can stand in single quotes. A backslash takes the
/// next character as it is.
class pairs {
 public:
  explicit pairs(std::string_view text) : rest_(text) {}
  bool next() {
    skip_blanks();
    auto const equals = rest_.find('=');
    if (equals == rest_.npos) return false;
    name = rest_.substr(0, equals);
    name = name.substr(0, name.find_last_not_of(blanks) + 1);
    rest_.remove_prefix(equals + 1);
    skip_blanks();
    read_value();
    return true;
  }
  std::string_view name;
  std::string value;

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(blanks))); }
  void read_value() {
    value.clear();
    bool const quoted = rest_.starts_with('\'');
    std::size_t at = quoted ? 1 : 0;
    for (; at < rest_.size(); ++at) {
      if (quoted ? rest_[at] == '\'' : blanks.find(rest_[at]) != blanks.npos) break;
      if (rest_[at] == '\\' && at + 1 < rest_.size()) ++at;
      value += rest_[at];
    }
    rest_.remove_prefix(std::min(rest_.size(), at + (quoted ? 1 : 0)));
  }

  std::string_view rest_;
};

int port_in(std::string const& text) {
  int port = 0;
  auto const [end, bad] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (bad != std::errc() || end != text.data() + text.size() || port < 1 || port > 65'535)
    throw error(errc::invalid_argument,
                "the port in the connect string for SOCI's back end mysql must be a number from 1 to 65535");
  return port;
}

}  // namespace

std::string connect_string_of(::soci::session const& s) {
  return (s.*last_parameters()).get_connect_string();
}

// SOCI takes two options of its own out of what libpq gets.
std::string conninfo_in(std::string connect_string) {
  if (connect_string.find("singlerow") == connect_string.npos) return connect_string;
  std::string out;
  for (pairs one(connect_string); one.next();) {
    if (one.name == "singlerow" || one.name == "singlerows") continue;
    out += fmt::format("{}{}='", out.empty() ? "" : " ", one.name);
    for (char const c : one.value) {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
    out += '\'';
  }
  return out;
}

// As libmariadb: without a host, and with localhost, by the Unix socket, if that is there.
mysql::settings mysql_settings_in(std::string_view connect_string) {
  constexpr char const* usual_socket = "/run/mysqld/mysqld.sock";
  mysql::settings out;
  mysql::endpoint place;
  for (pairs one(connect_string); one.next();) {
    auto const& v = one.value;
    if (one.name == "host") place.host = v;
    if (one.name == "port") place.port = port_in(v);
    if (one.name == "unix_socket") out.socket = v;
    if (one.name == "user") out.user = v;
    if (one.name == "pass" || one.name == "password") out.url_password = v;
    if (one.name == "db" || one.name == "dbname" || one.name == "service") out.database = v;
    if (one.name == "sslca") out.ssl_ca = v;
    if (one.name == "sslcert") out.ssl_cert = v;
    if (one.name == "sslkey") out.ssl_key = v;
  }
  bool const here = place.host.empty() || place.host == "localhost";
  if (here && out.socket.empty() && ::access(usual_socket, F_OK) == 0) out.socket = usual_socket;
  if (place.host.empty()) place.host = "localhost";
  if (out.socket.empty() || !here) {
    out.socket.clear();
    out.endpoints.push_back(std::move(place));
  }
  if (out.user.empty()) out.user = mysql::own_user();
  if (!out.ssl_ca.empty() || !out.ssl_cert.empty() || !out.ssl_key.empty())
    out.encryption = mysql::tls::required;
  return out;
}

}  // namespace rowlock::backend::soci
