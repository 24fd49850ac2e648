#include "backend/postgresql/connect.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/error.hpp>
#include <span>
#include <utility>
#include <vector>

#include "backend/postgresql/errors.hpp"
#include "backend/postgresql/host_names.hpp"
#include "backend/postgresql/native.hpp"
#include "backend/wire.hpp"
#include "backend/wire_watch.hpp"
#include "base/per_process.hpp"

namespace rowlock::backend::postgresql {
namespace {

struct free_options {
  void operator()(PQconninfoOption* o) const noexcept { PQconninfoFree(o); }
};
using options = std::unique_ptr<PQconninfoOption, free_options>;

std::string_view option(PQconninfoOption const* list, std::string_view keyword) {
  for (auto const* o = list; o != nullptr && o->keyword != nullptr; ++o)
    if (keyword == o->keyword) return o->val == nullptr ? std::string_view{} : o->val;
  return {};
}

// libpq quotes the unreadable part, which can be a password.
std::string without_quoted(std::string_view message) {
  std::string out;
  for (std::size_t at = 0; at < message.size();) {
    auto const open = message.find('"', at);
    auto const close = open == message.npos ? message.npos : message.find('"', open + 1);
    if (close == message.npos) return out += message.substr(at);
    out += message.substr(at, open - at);
    out += close == open + 2 ? message.substr(open, 3) : std::string_view("\"...\"");
    at = close + 1;
  }
  return out;
}

options parse(std::string const& conninfo) {
  char* problem = nullptr;
  options parsed(PQconninfoParse(conninfo.c_str(), &problem));
  std::unique_ptr<char, decltype(&PQfreemem)> const owned(problem, &PQfreemem);
  if (!parsed)
    throw error(
        errc::invalid_argument,
        fmt::format("libpq can't read the connection string: {}; write postgresql://user@host:port/database, "
                    "or keywords like host=... dbname=...",
                    one_line(without_quoted(problem == nullptr ? "out of memory" : problem))));
  return parsed;
}

// If a URL's password has an unescaped '@' or '/', libpq reads a part of it as host, port or database.
void refuse_split_password(PQconninfoOption const* parsed, std::string const& conninfo) {
  if (conninfo.rfind("postgres", 0) != 0 || conninfo.find("://") == conninfo.npos) return;
  auto const host = option(parsed, "host");
  for (auto part : {host.empty() ? host : host.substr(1), option(parsed, "port"), option(parsed, "dbname")})
    if (part.find('@') != part.npos)
      throw error(
          errc::invalid_argument,
          "the PostgreSQL URL has more than one '@': write %40 for '@' and %2F for '/' in user and password");
}

// Keepalives and tcp_user_timeout find a cut wire in seconds. libpq's own defaults need hours.
constexpr std::array<std::pair<char const*, char const*>, 5> our_defaults{{
    {"fallback_application_name", "rowlock"},
    {"keepalives_idle", "5"},
    {"keepalives_interval", "2"},
    {"keepalives_count", "3"},
    {"tcp_user_timeout", "5000"},
}};

void drop_notice(void*, PGresult const*) {}

/// The values of a connection string, else of the environment.
class settings {
 public:
  explicit settings(PQconninfoOption const* given) : given_(given), defaults_(PQconndefaults()) {}
  std::string_view operator[](std::string_view keyword) const {
    auto const text = option(given_, keyword);
    return text.empty() ? option(defaults_.get(), keyword) : text;
  }

 private:
  PQconninfoOption const* given_;
  options defaults_;
};

struct host_list {
  std::string host, hostaddr, port;

  host_list(std::string names, std::string addresses, std::string ports)
      : host(std::move(names)), hostaddr(std::move(addresses)), port(std::move(ports)) {}
  explicit host_list(settings const& s) : host(s["host"]), hostaddr(s["hostaddr"]), port(s["port"]) {}
  std::ptrdiff_t size() const {
    return 1 + std::max(std::count(host.begin(), host.end(), ','),
                        std::count(hostaddr.begin(), hostaddr.end(), ','));
  }
};

std::string nth(std::string_view list, std::ptrdiff_t n) {
  for (; n > 0; --n) {
    auto const comma = list.find(',');
    if (comma == list.npos) return {};
    list.remove_prefix(comma + 1);
  }
  return std::string(list.substr(0, list.find(',')));
}

endpoints apart(host_list const& all) {
  endpoints out;
  bool const one_port = all.port.find(',') == std::string::npos;  // applies to all hosts
  for (std::ptrdiff_t i = 0; i < all.size(); ++i)
    out.push_back({nth(all.host, i), nth(all.hostaddr, i), one_port ? all.port : nth(all.port, i)});
  return out;
}

host_list together(std::span<endpoint const> all) {
  host_list out{all.front().host, all.front().hostaddr, all.front().port};
  for (auto const& one : all.subspan(1)) {
    out.host += ',' + one.host;
    out.hostaddr += ',' + one.hostaddr;
    out.port += ',' + one.port;
  }
  return out;
}

// Certificates, settings and a long error have some ten thousand bytes. libpq searches all settings at each
// new one, so endless settings would keep it busy.
constexpr std::uint64_t most_log_in_bytes = 256u << 10u;

using extra_options = std::vector<std::pair<char const*, char const*>>;

native_connection start(std::string const& conninfo, extra_options const& extra, std::string const& where,
                        manner how) {
  std::vector<char const*> keywords;
  std::vector<char const*> values;
  auto const add = [&](char const* keyword, char const* text) {
    keywords.push_back(keyword);
    values.push_back(text);
  };
  // Later values win: the user's over rowlock's defaults.
  bool const ours = how == manner::ours;
  if (ours)
    for (auto const& [keyword, text] : our_defaults) add(keyword, text);
  add("dbname", conninfo.c_str());
  if (ours) add("client_encoding", "UTF8");
  for (auto const& [keyword, text] : extra) add(keyword, text);
  add(nullptr, nullptr);
  native_connection c(PQconnectStartParams(keywords.data(), values.data(), 1));
  if (!c) throw error(errc::unreachable, fmt::format("{}: out of memory", where));
  PQsetErrorVerbosity(c.get(), PQERRORS_VERBOSE);
  if (ours) PQsetNoticeReceiver(c.get(), &drop_notice, nullptr);
  return c;
}

native_connection start(std::string const& conninfo, host_list const& only, char const* methods,
                        std::string const& where, manner how) {
  extra_options extra{
      {"host", only.host.c_str()}, {"hostaddr", only.hostaddr.c_str()}, {"port", only.port.c_str()}};
  if (methods != nullptr) extra.emplace_back("require_auth", methods);
  return start(conninfo, extra, where, how);
}

bool by_tcp(endpoint const& e) {
  return !e.hostaddr.empty() || !(e.host.empty() || e.host.front() == '/' || e.host.front() == '@');
}

struct destination {
  endpoints hosts;
  char const* methods = nullptr;  ///< of the log-in, as require_auth has them, or null: any
};

bool can_require_methods() { return PQlibVersion() >= 160000; }

// Without a verified certificate the server gets no password in clear or as MD5, if libpq is 16 or newer:
// lib/doc/wire.md. [C13]
char const* methods_for(settings const& s, endpoints const& hosts) {
  if (!can_require_methods() || !s["require_auth"].empty() || s["sslmode"] == "verify-full") return nullptr;
  return std::any_of(hosts.begin(), hosts.end(), by_tcp) ? "!password,!md5" : nullptr;
}

// Includes a service file's values. Only a connection shows them, so this one fails before it looks up a name
// or password.
destination destination_of(std::string const& conninfo, std::string const& where, manner how) {
  auto const c = start(conninfo, {{"channel_binding", "none"}, {"password", "none"}}, where, how);
  options const all(PQconninfo(c.get()));
  settings const s(all.get());
  auto hosts = apart(host_list(s));
  auto const* const methods = methods_for(s, hosts);
  return {std::move(hosts), methods};
}

// Each of the remaining `hosts` gets its share of the time, in case one hangs.
boot_time_point share(PGconn* c, std::ptrdiff_t hosts, boot_time_point deadline) {
  auto const now = boot_clock::now();
  auto const until = now + (deadline - now) / hosts;
  options const all(PQconninfo(c));
  auto const text = option(all.get(), "connect_timeout");
  int seconds = 0;
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (seconds <= 0) return until;
  return std::min(until, now + std::chrono::seconds(std::max(seconds, 2)));  // 2: as in libpq
}

/// The socket that libpq logs in on, under the watch: it may try one address after the other, or once more
/// without encryption, with a new socket each time.
class watched_log_in {
 public:
  void follow(PGconn* c) {
    struct stat found {};
    if (::fstat(PQsocket(c), &found) != 0 || found.st_ino == inode_) return;
    limit_.reset();
    inode_ = found.st_ino;
    on_ = wire::of(PQsocket(c));
    if (on_) limit_.emplace(base::per_process<wire_watch>(), on_, boot_time_point::max(), most_early_bytes);
  }
  /// Looked at after each of libpq's reads, and, within one that goes on and on, by the watch: for a message
  /// that is said to be long, libpq makes room, and reads as long as more comes.
  bool is_endless(PGconn* c) const {
    return (on_ && on_->overrun()) || received_bytes(PQsocket(c)).value_or(0) > most_log_in_bytes;
  }

 private:
  ino_t inode_ = 0;
  std::shared_ptr<wire> on_;
  std::optional<wire_watch::scope> limit_;
};

/// @return false if the time is over
bool drive(PGconn* c, std::string const& where, boot_time_point until) {
  watched_log_in watched;
  for (auto next = PGRES_POLLING_WRITING; next != PGRES_POLLING_OK; next = PQconnectPoll(c)) {
    if (watched.is_endless(c))
      throw error(errc::unreachable,
                  fmt::format("{}: the server sends more and more instead of completing the log-in", where));
    if (next == PGRES_POLLING_FAILED || PQstatus(c) == CONNECTION_BAD) throw connect_error(c, where);
    watched.follow(c);
    if (!wait_for(PQsocket(c), next == PGRES_POLLING_READING ? POLLIN : POLLOUT, until)) return false;
  }
  return true;
}

// Bad values that libpq reads only when it connects (ports, sslmode, a service's name, ...) look like an
// outage, and would be retried for ever. With them even a connection to nowhere fails earlier.
void refuse_unusable(settings const& given, std::string const& conninfo, std::string const& where) {
  constexpr std::string_view nowhere = "/nonexistent/rowlock";
  host_list hosts(given);
  // A service file can name other hosts, with as many ports.
  if (!given["service"].empty()) hosts = host_list{"", std::string(nowhere), "5432"};
  std::string many(nowhere);
  for (auto i = hosts.size(); i > 1; --i) many += fmt::format(",{}", nowhere);
  if (!hosts.hostaddr.empty()) hosts.hostaddr = many;
  hosts.host = many;
  auto const c = start(conninfo, hosts, nullptr, where, manner::ours);
  std::string_view const message = PQerrorMessage(c.get());
  if (PQstatus(c.get()) == CONNECTION_BAD && message.find(nowhere) == message.npos)
    throw error(errc::invalid_argument, fmt::format("{}: {}", where, one_line(message)));
}

native_connection connect_to(std::span<endpoint const> hosts, std::ptrdiff_t others, char const* methods,
                             std::string const& conninfo, std::string const& where, boot_time_point deadline,
                             manner how) {
  for (;; hosts = hosts.subspan(1)) {
    auto c = start(conninfo, together(hosts), methods, where, how);
    if (drive(c.get(), where, share(c.get(), std::ssize(hosts) + others, deadline))) return c;
    // libpq tries the next host only after an error, not after silence.
    if (hosts.size() == 1 || boot_clock::now() >= deadline)
      throw error(errc::unreachable, fmt::format("{}: the server did not answer in time", where));
  }
}

}  // namespace

void initialize_driver() {
  // Any digest initializes OpenSSL. libpq itself registers no handler.
  static std::once_flag once;
  std::call_once(once, [] { PQfreemem(PQencryptPassword("", "")); });
}

std::string describe_conninfo(std::string const& conninfo) {
  auto const parsed = parse(conninfo);
  refuse_split_password(parsed.get(), conninfo);
  settings const given(parsed.get());
  std::string out = "postgresql";
  for (char const* keyword : {"service", "host", "hostaddr", "port", "dbname", "user"})
    if (auto const text = given[keyword]; !text.empty()) out += fmt::format(" {}={}", keyword, text);
  refuse_unusable(given, conninfo, out);
  return out;
}

native_connection connect(std::string const& conninfo, std::string const& where, boot_time_point deadline,
                          manner how) {
  auto to = destination_of(conninfo, where, how);
  host_names names(std::move(to.hosts), where);
  for (;;) {
    auto const hosts = names.take_known(deadline);
    try {
      auto c = connect_to(hosts, names.left(), to.methods, conninfo, where, deadline, how);
      if (how == manner::as_given) PQsetErrorVerbosity(c.get(), PQERRORS_DEFAULT);
      return c;
    } catch (error const& e) {
      if (e.reason() != errc::unreachable || names.left() == 0 || boot_clock::now() >= deadline) throw;
    }
  }
}

bool gives_password(PGconn* c) {
  options const all(PQconninfo(c));
  settings const s(all.get());
  return !can_require_methods() && s["sslmode"] != "verify-full";
}

bool run(PGconn* c, char const* sql, boot_time_point deadline) {
  if (PQsendQuery(c, sql) != 1) return false;
  for (bool done = false;; done = true) {
    while (PQisBusy(c) != 0)
      if (!wait_for(PQsocket(c), POLLIN, deadline) || PQconsumeInput(c) == 0) return false;
    native_result const r(PQgetResult(c));
    if (!r) return done;
    // Refuses a second result, and COPY, whose results never end.
    if (done || PQresultStatus(r.get()) != PGRES_COMMAND_OK) return false;
  }
}

}  // namespace rowlock::backend::postgresql
