#pragma once
// Private migrated databases on each kind of server, and small helpers around connections.

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <rowlock/error.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.hpp"
#include "support/support.hpp"

namespace rowlock::test {

/// The deadline that lies `ms` from now.
boot_time_point in(int ms);

/// Whether its message has the text.
inline bool says(error const& e, std::string_view text) {
  return std::string_view(e.what()).find(text) != std::string_view::npos;
}

/// A database of one test's own, migrated unless told otherwise, gone at the end.
class database {
 public:
  virtual ~database() = default;

  virtual backend::source& source() = 0;
  virtual std::string url() const = 0;  ///< as for rowlock, or libpq's conninfo
  virtual backend::table_names const& tables() const = 0;

  /// Grants as a manager's session does, if the tables are there.
  std::unique_ptr<backend::connection> connect();
  backend::statement_book book() { return {source().sql(), tables()}; }
  void migrate();
};

enum class kind { sqlite, postgresql, mariadb, mysql };
inline bool is_mysql(kind k) { return k == kind::mariadb || k == kind::mysql; }
inline bool is_sqlite(kind k) { return k == kind::sqlite; }
struct on_sqlite {
  static constexpr auto kind = test::kind::sqlite;
};
struct on_postgresql {
  static constexpr auto kind = test::kind::postgresql;
};
struct on_mariadb {
  static constexpr auto kind = test::kind::mariadb;
};
struct on_mysql {
  static constexpr auto kind = test::kind::mysql;
};
/// For TEST_CASE_TEMPLATE(name, On, ROWLOCK_BACKENDS).
#define ROWLOCK_BACKENDS ::rowlock::test::on_sqlite, ::rowlock::test::on_postgresql, ROWLOCK_MYSQLS
/// The servers, by Connector/C++.
#define ROWLOCK_MYSQLS ::rowlock::test::on_mariadb, ::rowlock::test::on_mysql

/// What begins a transaction that writes.
char const* begin_of(kind);
/// URL of the shared server of that kind.
std::string mysql_server_url(kind);

std::unique_ptr<database> make_database(kind);
std::unique_ptr<database> make_empty_database(kind);

/// ROWLOCK_TEST_POSTGRESQL with some of its keywords changed.
std::string conninfo_with(std::vector<std::pair<std::string, std::string>> const& changes);

/// A statement that is in no book, rendered for the database's tables.
backend::statement adhoc(database const&, std::string_view name, std::string_view sql);

/// Runs `what` and returns the rowlock::error that it must throw.
template <class F>
error thrown_by(F&& what) {
  try {
    what();
  } catch (error const& e) {
    return e;
  }
  return error(errc::failed, "nothing was thrown");
}

/// Parameters. Not a braced std::vector<value>: inside a template clang 14 takes a lone integer for its size.
template <class... Values>
std::vector<backend::value> with(Values&&... values) {
  std::vector<backend::value> out;
  (out.emplace_back(std::forward<Values>(values)), ...);
  return out;
}

/// Parameters of lock_list for all rows.
inline std::vector<backend::value> list_parameters() {
  return with(std::int64_t{1}, std::int64_t{1}, std::int64_t{0}, "%", "", "\xf4\x8f\xbf\xbf",
              std::int64_t{1000});
}

/// Parameters of lock_take for an ordinary take.
std::vector<backend::value> take_parameters(std::string const& name, std::string const& term,
                                            int ttl_ms = 30'000);

}  // namespace rowlock::test

TYPE_TO_STRING_AS("sqlite", rowlock::test::on_sqlite);
TYPE_TO_STRING_AS("postgresql", rowlock::test::on_postgresql);
TYPE_TO_STRING_AS("mariadb", rowlock::test::on_mariadb);
TYPE_TO_STRING_AS("mysql", rowlock::test::on_mysql);
