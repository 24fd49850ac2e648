#include "sql_session.hpp"

#include <fmt/format.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/postgresql/soci-postgresql.h>
#include <soci/sqlite3/soci-sqlite3.h>
#include <uriparser/Uri.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace rowlock::torture {
namespace {

constexpr std::string_view sqlite_scheme = "sqlite:";
constexpr std::string_view mysql_scheme = "mysql:";
constexpr std::string_view mariadb_scheme = "mariadb:";

std::string text_of(UriTextRangeA const& range) {
  if (range.first == nullptr) return {};
  std::string text(range.first, range.afterLast);
  text.resize(static_cast<std::size_t>(::uriUnescapeInPlaceA(text.data()) - text.data()));
  return text;
}

/// mysql://USER:PASSWORD@HOST:PORT/DATABASE, in SOCI's words.
std::string mysql_string(std::string const& url) {
  UriUriA uri;
  if (::uriParseSingleUriA(&uri, url.c_str(), nullptr) != URI_SUCCESS)
    throw std::runtime_error("--db is no URL");  // it may have a password: not repeated
  if (url.find('?') != url.npos)  // it would not be encrypted, where the URL says that it must be
    throw std::runtime_error("SOCI can't be told what is behind the ? in a URL of MySQL's");
  std::string said;
  auto const say = [&](char const* key, std::string const& value) {
    if (value.find_first_of(" \t\"'") != value.npos)
      throw std::runtime_error(fmt::format("SOCI can't be told a {} with blanks or quotation marks", key));
    if (!value.empty()) said += fmt::format("{}={} ", key, value);
  };
  auto const user = text_of(uri.userInfo);
  auto const colon = user.find(':');
  auto const host = text_of(uri.hostText);
  auto const port = text_of(uri.portText);
  auto const database = uri.pathHead != nullptr ? text_of(uri.pathHead->text) : std::string();
  ::uriFreeUriMembersA(&uri);
  say("connect_timeout", "2");
  say("host", host);
  say("port", port);
  say("user", user.substr(0, colon));
  if (colon != user.npos) say("password", user.substr(colon + 1));
  say("db", database);
  return said;
}

/// One URL for each host that it names: RFC 3986 knows no lists of them.
std::vector<std::string> one_for_each_host(std::string const& url) {
  auto begin = url.find("://") + 3;
  auto const end = std::min(url.find_first_of("/?#", begin), url.size());
  auto const at = url.rfind('@', end);
  if (at != url.npos) begin = at + 1;
  std::vector<std::string> all;
  for (auto from = begin; from <= end;) {
    auto const to = std::min(url.find(',', from), end);
    all.push_back(url.substr(0, begin) + url.substr(from, to - from) + url.substr(end));
    from = to + 1;
  }
  return all;
}

/// The first host that answers.
std::unique_ptr<::soci::session> connect_mysql(std::string const& url) {
  std::exception_ptr problem;
  for (auto const& one : one_for_each_host(url)) try {
      auto s = std::make_unique<::soci::session>(::soci::mysql, mysql_string(one));
      // What was written under a lock on another node of Galera is read on this one. MySQL takes it for a
      // comment.
      *s << "SET @rowlock_torture = 0 /*M! , SESSION wsrep_sync_wait = 1 */";
      return s;
    } catch (::soci::soci_error const&) {
      problem = std::current_exception();
    }
  std::rethrow_exception(problem);
}

}  // namespace

bool is_sqlite(std::string const& db) { return db.starts_with(sqlite_scheme); }
bool is_mysql(std::string const& db) {
  return db.starts_with(mysql_scheme) || db.starts_with(mariadb_scheme);
}

std::unique_ptr<::soci::session> connect(std::string const& db) {
  if (is_sqlite(db)) {
    auto const path = db.substr(sqlite_scheme.size());
    auto s = std::make_unique<::soci::session>(::soci::sqlite3, path.substr(0, path.find('?')));
    *s << "PRAGMA busy_timeout = 10000";
    return s;
  }
  if (is_mysql(db)) return connect_mysql(db);
  return std::make_unique<::soci::session>(::soci::postgresql, db);
}

}  // namespace rowlock::torture
