// What the doctor does when it is the examination itself that goes wrong.
#include <fmt/format.h>

#include <regex>

#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

TEST_CASE("failing: no connection is one finding, which says why") {
  auto const only = [](std::string const& url, std::string const& why, std::string const& remedy) {
    auto const all = examined(url, {.reply_timeout = 20s});
    CHECK(all.size() == 1);
    expect(all, "connection", verdict::error, why, remedy);
  };
  only("host=127.0.0.1 port=1 dbname=x user=y", "refused", "Is the server running");
  only("mysql://u@127.0.0.1:1/x", "127.0.0.1", "Is the server running");
  only(postgresql_conninfo() + " password=wrong", "password authentication failed", "password");
  only(std::regex_replace(mariadb_url(), std::regex(":[^:@]*@"), ":wrong@"), "denied", "password");
  only(postgresql_conninfo() + " dbname=nobodys", "does not exist", "Create the database");
  only("sqlite:/nonexistent/locks.db", "no such SQLite file", "rowlock migrate up");
}

TEST_CASE("failing: options that make no sense") {
  sqlite_fixture f;
  for (doctor_options const& o : {doctor_options{.ttl = 99ms},
                                  {.ttl = 24h * 367},
                                  {.reply_timeout = 9ms},
                                  {.table_prefix = "a-b"},
                                  {.schema = "s"}})
    CHECK_THROWS_AS(doctor(f.source, o), error);
}

TEST_CASE_TEMPLATE(
    "failing: a check that fails is unknown, a connection that breaks is made again, the others go on",
    Database, sqlite_fixture, postgresql_fixture, mariadb_fixture, mysql_fixture) {
  Database f;
  doctor_options o;
  o.schema = f.options.schema;
  auto const well = examined(f.source, o);
  f.probe->before = [](std::string const& name) {
    if (name == "doctor_explain") throw error(errc::unreachable, "the session was lost");
    if (name == "meta_read") throw error(errc::failed, "something else");
  };
  auto const all = examined(observed_by(f.source, f.probe), o);
  expect(all, "index", verdict::unknown, "the session was lost");
  expect(all, "schema", verdict::unknown, "something else");
  REQUIRE(all.size() == well.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].check != "index" && all[i].check != "schema") {
      INFO(all[i].check << ": " << all[i].why);
      CHECK(all[i].check == well[i].check);
      CHECK(all[i].result == well[i].result);
    }
  CHECK(f.probe->connections == 0);
}

TEST_CASE_TEMPLATE(
    "failing: a server that stops answering in the midst costs a reply or two, not one for each check",
    Server, on_postgresql, on_mariadb, on_mysql) {
  server_scene s(Server::kind);
  auto const between = std::make_shared<statement_probe>();
  between->before = [&](std::string const& name) {
    if (name == "doctor_may_select_tokens") s.server.pause();
  };
  auto const start = std::chrono::steady_clock::now();
  auto const all = examined(observed_by(source_from_url(s.as_app()), between), {.reply_timeout = 5s});
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  s.server.resume();
  expect(all, "schema", verdict::ok, "version 2");
  for (auto const* check : {"grants", "writable", "durability", "index"})
    CHECK(found(all, check).result == verdict::unknown);
}
