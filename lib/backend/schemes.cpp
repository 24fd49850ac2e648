#include "backend/schemes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <rowlock/error.hpp>
#include <utility>
#ifdef ROWLOCK_HAS_SQLITE
#include <rowlock/sqlite.hpp>
#endif
#ifdef ROWLOCK_HAS_POSTGRESQL
#include <rowlock/postgresql.hpp>
#endif
#ifdef ROWLOCK_HAS_MYSQL
#include <rowlock/mysql.hpp>
#endif

namespace rowlock::backend {
namespace {

using namespace std::string_view_literals;

constexpr std::array sqlite_begins{"sqlite:"sv};
constexpr std::array postgresql_begins{"postgresql://"sv, "postgres://"sv};
constexpr std::array mysql_begins{"mysql://"sv, "mariadb://"sv};

#ifdef ROWLOCK_HAS_SQLITE
// A path can contain '?': only text that looks like options is read as options.
connection_source open_sqlite(std::string path) {
  auto durability = ::rowlock::sqlite::synchronous::normal;
  auto const query = path.rfind('?');
  if (query != path.npos && path.find('=', query) != path.npos) {
    auto const option = std::string_view(path).substr(query + 1);
    bool const full = option == "synchronous=full";
    if (!full && option != "synchronous=normal")
      throw error(
          errc::invalid_argument,
          fmt::format("'?{}' is no option of sqlite:PATH, which has ?synchronous=normal, the default, and "
                      "?synchronous=full",
                      option));
    if (full) durability = ::rowlock::sqlite::synchronous::full;
    path.resize(query);
    if (path == ":memory:")
      throw error(errc::invalid_argument,
                  "sqlite::memory: has no options: nothing of it survives its process");
  }
  return ::rowlock::sqlite::source(std::move(path), durability);
}
#endif

constexpr std::array all{
    scheme{.back_end = "sqlite",
           .begins = sqlite_begins,
           .example = "sqlite:PATH",
           .is_file = true,
#ifdef ROWLOCK_HAS_SQLITE
           .open = [](std::string const& url) -> connection_source {
             return open_sqlite(url.substr(sqlite_begins[0].size()));
           }
#endif
    },
    scheme{
        .back_end = "postgresql",
        .begins = postgresql_begins,
        .example = "postgresql://HOST/DB",
        .keywords = true,
        .passwords = "PGPASSWORD, ~/.pgpass, a service file",
#ifdef ROWLOCK_HAS_POSTGRESQL
        .open = [](std::string const& url) -> connection_source { return ::rowlock::postgresql::source(url); }
#endif
    },
    scheme{.back_end = "mysql",
           .begins = mysql_begins,
           .example = "mysql://HOST/DB",
           .takes_password_file = true,
           .passwords = "--password-file PATH, MYSQL_PWD, ~/.my.cnf",
#ifdef ROWLOCK_HAS_MYSQL
           .open = [](std::string const& url) -> connection_source { return ::rowlock::mysql::source(url); }
#endif
    }};

/// 0 if the URL has no scheme of this back end.
std::size_t scheme_length(scheme const& s, std::string_view url) noexcept {
  for (auto const begin : s.begins)
    if (url.starts_with(begin)) return begin.size();
  return 0;
}

bool is_secret(std::string_view key) { return key == "password" || key == "sslpassword"; }

/// As libpq reads option names in a URL. Invalid escapes stay.
std::string unescaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    unsigned char byte = 0;
    auto const* const end = text.data() + std::min<std::size_t>(text.size(), 3);
    bool const escape =
        text.size() >= 3 && text[0] == '%' && std::from_chars(text.data() + 1, end, byte, 16).ptr == end;
    out += escape ? static_cast<char>(byte) : text[0];
    text.remove_prefix(escape ? 3 : 1);
  }
  return out;
}

// For libpq a password with an unescaped ? in it goes on up to the @.
bool url_has_password(std::string_view rest) {
  auto const authority = rest.substr(0, rest.find('/'));
  if (auto const at = authority.rfind('@'); at != authority.npos)
    if (auto const colon = authority.find(':'); colon != authority.npos && colon + 1 < at) return true;
  auto const query = rest.find('?');
  if (query == rest.npos) return false;
  for (rest.remove_prefix(query + 1); !rest.empty();) {
    auto const one = rest.substr(0, rest.find('&'));
    if (is_secret(unescaped(one.substr(0, one.find('='))))) return true;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return false;
}

/// Skips a keyword's value: quoted, or up to a blank. A backslash escapes the next character.
void skip_value(std::string_view& s) {
  bool const quoted = s.starts_with('\'');
  std::size_t i = quoted ? 1 : 0;
  while (i < s.size() && (quoted ? s[i] != '\'' : std::strchr(" \t\r\n", s[i]) == nullptr))
    i += s[i] == '\\' ? 2 : 1;
  s.remove_prefix(std::min(s.size(), i + (quoted ? 1 : 0)));
}

bool keywords_have_password(std::string_view s) {
  constexpr auto blanks = " \t\r\n";
  for (;;) {
    s.remove_prefix(std::min(s.size(), s.find_first_not_of(blanks)));
    auto const equals = s.find('=');
    if (equals == s.npos) return false;
    auto key = s.substr(0, equals);
    key = key.substr(0, key.find_first_of(blanks));
    if (is_secret(key)) return true;
    s.remove_prefix(equals + 1);
    s.remove_prefix(std::min(s.size(), s.find_first_not_of(blanks)));
    skip_value(s);
  }
}

}  // namespace

std::span<scheme const> schemes() noexcept { return all; }

scheme const* scheme_of(std::string_view url) noexcept {
  // Keyword strings ("host=db dbname=app") have no scheme.
  bool const keywords = url.find('=') != url.npos && url.find("://") == url.npos;
  for (auto const& one : all)
    if (scheme_length(one, url) > 0) return &one;
  auto const* found =
      std::find_if(all.begin(), all.end(), [&](scheme const& one) { return keywords && one.keywords; });
  return found == all.end() ? nullptr : found;
}

bool has_password(scheme const& s, std::string_view url) {
  if (s.is_file) return false;
  auto const length = scheme_length(s, url);
  return length > 0 ? url_has_password(url.substr(length)) : keywords_have_password(url);
}

}  // namespace rowlock::backend
