#include <fmt/format.h>

#include <rowlock/rowlock.hpp>

#ifdef ROWLOCK_HAS_SQLITE
#include <rowlock/sqlite.hpp>
#endif
#ifdef ROWLOCK_HAS_POSTGRESQL
#include <rowlock/postgresql.hpp>
#endif
#ifdef ROWLOCK_HAS_MYSQL
#include <rowlock/mysql.hpp>
#endif

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

[[noreturn, maybe_unused]] void not_built(std::string_view backend) {
  throw error(errc::unsupported, fmt::format("this build has no {} back end", backend));
}

connection_source sqlite_source([[maybe_unused]] std::string path) {
#ifdef ROWLOCK_HAS_SQLITE
  return sqlite::source(std::move(path));
#else
  not_built("sqlite");
#endif
}

connection_source postgresql_source([[maybe_unused]] std::string conninfo) {
#ifdef ROWLOCK_HAS_POSTGRESQL
  return postgresql::source(std::move(conninfo));
#else
  not_built("postgresql");
#endif
}

connection_source mysql_source([[maybe_unused]] std::string const& url) {
#ifdef ROWLOCK_HAS_MYSQL
  return mysql::source(url);
#else
  not_built("mysql");
#endif
}

}  // namespace

connection_source source_from_url(std::string_view url) {
  constexpr std::string_view sqlite = "sqlite:";
  if (url.starts_with(sqlite)) return sqlite_source(std::string(url.substr(sqlite.size())));
  if (url.starts_with("mysql://") || url.starts_with("mariadb://")) return mysql_source(std::string(url));
  bool const is_postgresql_url = url.starts_with("postgresql://") || url.starts_with("postgres://");
  // libpq's keyword strings ("host=db dbname=app") have no scheme.
  bool const is_keyword_string = url.find('=') != url.npos && url.find("://") == url.npos;
  if (is_postgresql_url || is_keyword_string) return postgresql_source(std::string(url));
  // Not echoed: what stands there may be a password.
  throw error(
      errc::invalid_argument,
      "the database URL is none that rowlock knows: sqlite:PATH, postgresql://..., mysql://..., or a libpq "
      "keyword string such as 'host=db dbname=app'");
}

namespace {

// A database in memory is this manager's alone, so nobody else could have migrated it.
connection_source ready_source(std::string_view url, manager_options const& options) {
  auto source = source_from_url(url);
  if (url == "sqlite::memory:")
    migrator(source, {.table_prefix = options.table_prefix, .schema = options.schema}).up();
  return source;
}

}  // namespace

// Braces: from left to right, so that the options are moved last.
lock_manager::lock_manager(std::string_view url, manager_options options)
    : lock_manager{ready_source(url, options), std::move(options)} {}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
