#pragma once
// Servers of a test's own with rowlock's tables, and a role that may do what schema/*-grants.sql says, and no
// more.

#include <doctest/doctest.h>

#include <memory>
#include <rowlock/rowlock.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "contract/fixture.hpp"
#include "support/database_server.hpp"

namespace rowlock::test {

using findings = std::vector<finding>;

findings examined(connection_source const&, doctor_options = {});
findings examined(std::string const& url, doctor_options = {});

/// Connections on which this was run before: what a pooler or proxy between would do to them.
connection_source spoilt_by(std::string const& sql, connection_source const&);

/// The finding of that check; the case fails if there is none. (g++ 14 takes a string by reference for its
/// owner.)
finding const& found(findings const&, std::string_view check);
bool looked_at(findings const&, std::string const& check);

/// That check came to this, `why` and `remedy` being parts of what it says; no remedy at all if that is
/// empty.
void expect(findings const&, std::string const& check, verdict, std::string const& why,
            std::string const& remedy = "");

/// Everything is well. `checks`: all of them, in their order.
void expect_healthy(findings const&, std::vector<std::string> const& checks);

class server_scene {
 public:
  explicit server_scene(server_kind, database_server::options = {});

  std::string as_admin() const { return server.address(); }
  std::string as_app() const;
  /// As the administrator; rowlock's tables by their names.
  std::unique_ptr<backend::connection> connect() const;
  void sql(std::string const&) const;
  /// One value.
  std::string value(std::string const& sql) const;
  findings examine(doctor_options o = {}) const { return examined(as_app(), std::move(o)); }
  /// PostgreSQL: sets it for everybody, from now on.
  void set_for_all(std::string const& name, std::string const& value) const;

  server_kind const kind;
  database_server server;
};

template <server_kind Kind>
struct on_server {
  static constexpr server_kind kind = Kind;
};
using on_postgresql = on_server<server_kind::postgresql>;
using on_mariadb = on_server<server_kind::mariadb>;
using on_mysql = on_server<server_kind::mysql>;

}  // namespace rowlock::test

TYPE_TO_STRING_AS("postgresql", rowlock::test::on_postgresql);
TYPE_TO_STRING_AS("mariadb", rowlock::test::on_mariadb);
TYPE_TO_STRING_AS("mysql", rowlock::test::on_mysql);
