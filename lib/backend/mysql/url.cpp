#include "backend/mysql/url.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>
#include <uriparser/Uri.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <rowlock/error.hpp>
#include <system_error>
#include <utility>

#include "backend/mysql/small_file.hpp"

namespace rowlock::backend::mysql {
namespace {

constexpr std::string_view form = "mysql://USER@HOST:PORT/DATABASE?OPTION=VALUE";

[[noreturn]] void refuse(std::string const& why) {
  throw error(errc::invalid_argument, fmt::format("the MySQL URL {}; write {}", why, form));
}

class parsed_uri {
 public:
  explicit parsed_uri(std::string const& text) {
    char const* problem = nullptr;
    if (uriParseSingleUriA(&uri_, text.c_str(), &problem) != URI_SUCCESS)
      refuse("can't be read (characters like @ : / ? # [ ] and % in its parts are written %40, ...)");
  }
  ~parsed_uri() { uriFreeUriMembersA(&uri_); }
  parsed_uri(parsed_uri const&) = delete;
  parsed_uri& operator=(parsed_uri const&) = delete;
  UriUriA const* operator->() const noexcept { return &uri_; }

 private:
  UriUriA uri_{};
};

std::string_view raw(UriTextRangeA const& range) {
  return range.first == nullptr
             ? std::string_view{}
             : std::string_view(range.first, static_cast<std::size_t>(range.afterLast - range.first));
}

std::string decoded(std::string_view text) {
  std::string out(text);
  out.push_back('\0');
  auto const* end = uriUnescapeInPlaceA(out.data());
  out.resize(static_cast<std::size_t>(end - out.data()));
  if (out.find('\0') != out.npos) refuse("has %00 in it");
  return out;
}

int port_of(std::string_view text) {
  int port = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (problem != std::errc{} || end != text.data() + text.size() || port < 1 || port > 65535)
    refuse("has a port that is none");
  return port;
}

endpoint endpoint_of(parsed_uri const& uri) {
  endpoint out;
  out.host = decoded(raw(uri->hostText));
  if (auto const port = raw(uri->portText); !port.empty()) out.port = port_of(port);
  return out;
}

std::string database_of(parsed_uri const& uri) {
  auto const* segment = uri->pathHead;
  if (segment == nullptr) return {};
  if (segment->next != nullptr) refuse("has more than one / behind its host");
  return decoded(raw(segment->text));
}

void read_user(parsed_uri const& uri, settings& out) {
  auto const info = raw(uri->userInfo);
  auto const colon = info.find(':');
  out.user = decoded(info.substr(0, colon));
  if (colon != info.npos) out.url_password = decoded(info.substr(colon + 1));
  if (out.user.empty()) out.user = own_user();
}

tls encryption_of(std::string const& mode) {
  if (mode == "disable") return tls::off;
  if (mode == "require") return tls::required;
  if (mode == "verify") return tls::verified;
  throw error(errc::invalid_argument,
              fmt::format("the MySQL URL's ssl-mode is '{}': it can be disable, require (encrypted, but the "
                          "server may be anybody's) or verify (with ssl-ca)",
                          mode));
}

struct option {
  std::string_view name;
  void (*set)(settings&, std::string const&);
};

std::array<option, 6> const& known_options() {
  static constexpr std::array<option, 6> all{{
      {"socket", [](settings& s, std::string const& v) { s.socket = v; }},
      {"password-file", [](settings& s, std::string const& v) { s.password_file = v; }},
      {"ssl-mode", [](settings& s, std::string const& v) { s.encryption = encryption_of(v); }},
      {"ssl-ca", [](settings& s, std::string const& v) { s.ssl_ca = v; }},
      {"ssl-cert", [](settings& s, std::string const& v) { s.ssl_cert = v; }},
      {"ssl-key", [](settings& s, std::string const& v) { s.ssl_key = v; }},
  }};
  return all;
}

void read_option(std::string const& name, std::string const& value, settings& out) {
  std::vector<std::string_view> names;
  for (auto const& one : known_options()) {
    if (name == one.name) return one.set(out, value);
    names.push_back(one.name);
  }
  // Without the value, which might be a password.
  throw error(errc::invalid_argument, fmt::format("the MySQL URL has the unknown option '{}'; there are: {}",
                                                  name, fmt::join(names, ", ")));
}

void read_query(parsed_uri const& uri, settings& out) {
  if (uri->query.first == nullptr) return;
  UriQueryListA* list = nullptr;
  int count = 0;
  // A plus sign stays one.
  if (uriDissectQueryMallocExA(&list, &count, uri->query.first, uri->query.afterLast, URI_FALSE,
                               URI_BR_DONT_TOUCH) != URI_SUCCESS)
    refuse("has options that can't be read");
  std::unique_ptr<UriQueryListA, decltype(&uriFreeQueryListA)> const owned(list, &uriFreeQueryListA);
  for (auto const* one = list; one != nullptr; one = one->next)
    read_option(one->key == nullptr ? "" : one->key, one->value == nullptr ? "" : one->value, out);
}

void check(settings const& s) {
  if (s.socket.empty() && s.endpoints.empty()) refuse("names no host");
  if (s.encryption == tls::verified && s.ssl_ca.empty())
    refuse("has ssl-mode=verify without ssl-ca=PATH, the certificates to trust");
  bool const files = !s.ssl_ca.empty() || !s.ssl_cert.empty() || !s.ssl_key.empty();
  if (s.encryption == tls::off && files) refuse("names certificates, but no ssl-mode (require or verify)");
  if (s.encryption == tls::required && !s.ssl_ca.empty())
    refuse("has ssl-ca with ssl-mode=require, which looks at no certificate: say verify");
  for (auto const& [option, path] : {std::pair("ssl-ca", &s.ssl_ca), std::pair("ssl-cert", &s.ssl_cert),
                                     std::pair("ssl-key", &s.ssl_key)}) {
    std::error_code unknown;
    auto const there = std::filesystem::status(*path, unknown);
    // The driver would wait for a pipe, but reports a missing file.
    if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
      throw error(
          errc::invalid_argument,
          fmt::format("the MySQL URL's {}={} is no regular file: name a file in PEM format", option, *path));
  }
  if (s.ssl_cert.empty() != s.ssl_key.empty()) refuse("has one of ssl-cert and ssl-key without the other");
}

/// One URI for each host: RFC 3986 has no lists of them.
std::vector<std::string> one_for_each_host(std::string const& url) {
  auto const scheme_end = url.find("://");
  auto const begin = scheme_end + 3;
  auto const end = std::min(url.find_first_of("/?#", begin), url.size());
  auto const authority = url.substr(begin, end - begin);
  auto const at = authority.rfind('@');
  // Otherwise an unescaped @ in a password would show a part of it as a host.
  if (at != authority.npos && authority.find('@') != at)
    refuse("has more than one '@': write %40 for '@' and %2F for '/' in user and password");
  auto const user = at == authority.npos ? std::string() : authority.substr(0, at + 1);
  auto hosts = at == authority.npos ? authority : authority.substr(at + 1);
  std::vector<std::string> out;
  for (;;) {
    auto const comma = hosts.find(',');
    out.push_back(url.substr(0, begin) + user + hosts.substr(0, comma) + url.substr(end));
    if (comma == hosts.npos) return out;
    hosts.erase(0, comma + 1);
  }
}

}  // namespace

std::string own_user() {
  passwd const* self = ::getpwuid(::geteuid());
  return self == nullptr ? "" : self->pw_name;
}

settings read_url(std::string const& url) {
  if (!url.starts_with("mysql://") && !url.starts_with("mariadb://"))
    refuse("does not begin with mysql:// or mariadb://");
  auto const alternatives = one_for_each_host(url);
  settings out;
  for (auto const& one : alternatives) {
    parsed_uri const uri(one);
    auto const place = endpoint_of(uri);
    if (place.host.empty() && alternatives.size() > 1) refuse("names an empty host");
    if (!place.host.empty()) out.endpoints.push_back(place);
  }
  parsed_uri const first(alternatives.front());
  if (first->fragment.first != nullptr) refuse("has a # in it, which is written %23");
  read_user(first, out);
  out.database = database_of(first);
  read_query(first, out);
  if (!out.socket.empty()) out.endpoints.clear();
  check(out);
  (void)out.password();
  return out;
}

std::optional<std::string> settings::password() const {
  if (url_password) return url_password;
  if (!password_file.empty()) {
    auto const file = read_small_file(password_file);
    auto const why_not = file.why_not.empty() && file.text.empty() ? "it is empty" : file.why_not;
    if (!why_not.empty())
      throw error(errc::invalid_argument, fmt::format("no password can be read from the first line of {}: {}",
                                                      password_file, why_not));
    auto line = file.text.substr(0, file.text.find('\n'));
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread sets it meanwhile
  if (char const* set = std::getenv("MYSQL_PWD"); set != nullptr && *set != '\0') return set;
  return std::nullopt;
}

std::string settings::describe() const {
  std::string out = "mysql";
  if (!socket.empty()) {
    out += " socket=" + socket;
  } else {
    std::vector<std::string> hosts;
    std::vector<int> ports;
    for (auto const& e : endpoints) {
      hosts.push_back(e.host);
      ports.push_back(e.port);
    }
    out += fmt::format(" host={} port={}", fmt::join(hosts, ","), fmt::join(ports, ","));
  }
  return out + fmt::format(" db={} user={}", database, user);
}

}  // namespace rowlock::backend::mysql
