// Sessions on servers of MySQL and MariaDB that are paused, killed and restarted, take no writes, or belong
// to Galera.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/mysql.hpp>
#include <thread>

#include "backend/database.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using namespace std::chrono_literals;

backend::statement const add_row{"add_row", "INSERT INTO t VALUES (1)"};
backend::statement const count_rows{"count_rows", "SELECT count(*) FROM t"};

constexpr server_kind server_of(kind k) {
  return k == kind::mysql ? server_kind::mysql : server_kind::mariadb;
}

// A server with an empty table, and a session on it that has the statements prepared.
struct scene {
  explicit scene(kind k, database_server::options o = {}) : server(server_of(k), o) {
    c->script("CREATE TABLE t (a INT) ENGINE = InnoDB", in(20'000));
    c->execute(add_row, {}, in(20'000));
    c->execute(count_rows, {}, in(20'000));
  }
  std::unique_ptr<backend::connection> connect(int ms) const {
    return source.implementation()->connect(in(ms));
  }
  error connect_error(int ms) const {
    return thrown_by([&] { connect(ms); });
  }

  database_server server;
  mysql::source source{server.address()};
  std::unique_ptr<backend::connection> c = connect(20'000);
};

error refusal_of(database_server const& server) {
  mysql::source const source{server.address()};
  return thrown_by([&] { source.implementation()->connect(in(20'000)); });
}

}  // namespace

// MariaDB can be told which version to say; MySQL can't, and so MariaDB plays an old one.
TEST_CASE("C98: an old server is refused with its version: mariadb") {
  database_server const old(server_kind::mariadb, {.settings = {"version=10.5.29-MariaDB"}});
  auto const e = refusal_of(old);
  CHECK(e.reason() == errc::unsupported);
  CHECK_MESSAGE(std::string(e.what()).find("MariaDB 10.5.29-MariaDB is too old") != std::string::npos,
                e.what());
  database_server const older(server_kind::mariadb, {.settings = {"version=5.7.44-log"}});
  auto const before_8 = refusal_of(older);
  CHECK(before_8.reason() == errc::unsupported);
  CHECK_MESSAGE(std::string(before_8.what()).find("MySQL 5.7.44-log is too old") != std::string::npos,
                before_8.what());
  database_server const oldest(server_kind::mariadb, {.settings = {"version=10.6.0-MariaDB"}});
  CHECK_NOTHROW((void)mysql::source{oldest.address()}.implementation()->connect(in(20'000)));
}

TEST_CASE_TEMPLATE("server paused: in doubt after the seconds of a reply, no new sessions until it goes on",
                   On, ROWLOCK_MYSQLS) {
  scene s(On::kind);
  s.server.pause();
  auto const start = boot_clock::now();
  CHECK(thrown_by([&] { s.c->execute(add_row, {}, in(2000)); }).reason() == errc::in_doubt);
  CHECK_FALSE(s.c->usable());
  CHECK(s.connect_error(300).reason() == errc::unreachable);
  CHECK(boot_clock::now() - start < 30s);
  s.server.resume();
  auto const c = s.connect(10'000);
  auto const until = in(20'000);
  while (as_int(c->execute(count_rows, {}, in(20'000)).rows.at(0).at(0)) < 2)
    REQUIRE(boot_clock::now() < until);
}

TEST_CASE_TEMPLATE(
    "server killed and restarted: what was idle is unreachable, what was running in doubt, rows stay", On,
    ROWLOCK_MYSQLS) {
  scene s(On::kind);
  auto const busy = s.connect(20'000);
  std::jthread killer([&] {
    backend::statement const sleeping{
        "sleeping", "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'"};
    CHECK(eventually([&] { return as_int(s.c->execute(sleeping, {}, in(20'000)).rows.at(0).at(0)) > 0; }));
    s.server.kill();
  });
  CHECK(thrown_by([&] {
          busy->execute({"sleep", "SELECT sleep(60)"}, {}, in(60'000));
        }).reason() == errc::in_doubt);
  CHECK_FALSE(busy->usable());
  killer.join();
  CHECK_FALSE(s.c->alive());
  CHECK(thrown_by([&] { s.c->execute(add_row, {}, in(20'000)); }).reason() == errc::unreachable);
  CHECK(s.connect_error(2000).reason() == errc::unreachable);
  s.server.restart();
  CHECK(as_int(s.connect(10'000)->execute(count_rows, {}, in(20'000)).rows.at(0).at(0)) == 1);
}

// Over TLS the client library has another number for a connection that ends, 2026.
TEST_CASE_TEMPLATE("server over TLS: a reply that did not come leaves it unknown what was done", On,
                   ROWLOCK_MYSQLS) {
  scene s(On::kind, {.tls = On::kind == kind::mariadb});  // MySQL has a certificate anyway
  mysql::source const encrypted(s.server.address() + "?ssl-mode=require");
  auto const slowly = encrypted.implementation()->connect(in(20'000));
  backend::statement const slow_row{"slow_row", "INSERT INTO t SELECT 2 FROM (SELECT sleep(4)) AS later"};
  auto const late = thrown_by([&] { slowly->execute(slow_row, {}, in(2000)); });
  CHECK(late.reason() == errc::in_doubt);
  CHECK_FALSE(slowly->usable());
  CHECK(eventually([&] { return as_int(s.c->execute(count_rows, {}, in(20'000)).rows.at(0).at(0)) == 2; }));
  auto const busy = encrypted.implementation()->connect(in(20'000));
  std::jthread killer([&] {
    backend::statement const sleeping{
        "sleeping", "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'"};
    CHECK(eventually([&] { return as_int(s.c->execute(sleeping, {}, in(20'000)).rows.at(0).at(0)) > 0; }));
    s.server.kill();
  });
  auto const cut = thrown_by([&] { busy->execute({"sleep", "SELECT sleep(60)"}, {}, in(60'000)); });
  CHECK(cut.reason() == errc::in_doubt);
  CHECK_FALSE(busy->usable());
}

// Even connecting reads more rows: the server was told to be unreachable.
TEST_CASE_TEMPLATE(
    "server with max_join_size: how many rows others' queries may look at is no limit for ours", On,
    ROWLOCK_MYSQLS) {
  scene s(On::kind);
  migrator(s.source).up();
  s.c->script(
      "CREATE USER plain@'%' IDENTIFIED BY 'plain';"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock.* TO plain@'%';"
      "SET GLOBAL max_join_size = 1",
      in(20'000));
  mysql::source const plain("mysql://plain:plain@" +
                            s.server.address().substr(s.server.address().find('@') + 1));
  auto const c = plain.implementation()->connect(in(20'000));
  CHECK(as_int(
            c->execute({"join", "SELECT count(*) FROM rowlock_meta AS a, (SELECT 1 UNION ALL SELECT 2) AS b"},
                       {}, in(20'000))
                .rows.at(0)
                .at(0)) == 2);
  lock_manager m(plain);
  CHECK(m.make_mutex("x").try_acquire());
  CHECK(migrator(plain).validate().empty());
}

TEST_CASE_TEMPLATE(
    "T15: a server that is set to be read-only is not busy, and one that takes writes is preferred", On,
    ROWLOCK_MYSQLS) {
  scene reader(On::kind);
  reader.c->script(
      "CREATE USER plain@'%' IDENTIFIED BY 'plain';"
      "GRANT SELECT, INSERT, UPDATE, DELETE ON rowlock.* TO plain@'%'",
      in(20'000));
  migrator(reader.source).up();
  auto const hosts = reader.server.address().substr(reader.server.address().find('@') + 1);
  mysql::source const plain("mysql://plain:plain@" + hosts);
  {
    lock_manager m(plain);
    CHECK(m.make_mutex("x").try_acquire());
  }
  reader.c->script("SET GLOBAL read_only = 1", in(20'000));
  lock_manager m(plain);
  for (int i = 0; i < 2; ++i) {
    auto const e = thrown_by([&] {
      if (i == 0)
        (void)m.make_mutex("x").try_acquire();
      else
        (void)m.make_mutex("x").acquire();
    });
    CHECK(e.reason() == errc::read_only);
    CHECK(std::string_view(e.what()).find("primary") != std::string_view::npos);
  }
  // Also to an account that may write all the same: its renewals would not reach the primary.
  lock_manager admin(reader.source);
  CHECK(thrown_by([&] { (void)admin.make_mutex("x").try_acquire(); }).reason() == errc::read_only);
  reader.c->script("SET GLOBAL read_only = 0", in(20'000));
  CHECK(admin.make_mutex("x").try_acquire());
  reader.c->script("SET GLOBAL read_only = 1", in(20'000));
  // Both hosts answer; the second takes writes.
  auto const here = mysql_server_url(On::kind);
  auto const writer = here.substr(here.find('@') + 1, here.rfind('/') - here.find('@') - 1);
  auto const both =
      fmt::format("{},{}/", reader.server.address().substr(0, reader.server.address().rfind('/')), writer);
  auto const first = thrown_by([&] { mysql::source(both).implementation()->connect(in(20'000)); });
  // The shared server has another password: what it says is what counts, or the reader is what there is.
  CHECK((first.reason() == errc::failed || first.reason() == errc::access_denied));
}

TEST_CASE(
    "Galera: B28: lease and unique_insert work, a row is not waited for, and reads wait for what was "
    "committed "
    "<mariadb>") {
  database_server const server(server_kind::mariadb, {.galera = true});
  mysql::source const source(server.address());
  migrator(source).up();
  for (auto how : {strategy::lease, strategy::unique_insert}) {
    manager_options o;
    o.strategy = how;
    lock_manager m(source, o);
    auto const lock = m.make_mutex(to_string(how)).try_acquire();
    REQUIRE(lock);
    CHECK(lock->token().value > 0);
  }
  auto const c = source.implementation()->connect(in(20'000));
  CHECK(as_int(c->execute({"w", "SELECT @@wsrep_sync_wait"}, {}, in(20'000)).rows.at(0).at(0)) == 3);
  auto const e = thrown_by([&] { c->wait_for_row({"w", "SELECT 1"}, {}, in(1000), 1s, {}); });
  CHECK(e.reason() == errc::unsupported);
  CHECK(std::string_view(e.what()).find("use lease or unique_insert") != std::string_view::npos);
  CHECK(c->usable());
}

// Without a group: what matters is how members would be told to work. (Each of them certifies what it
// commits, and locks for itself.)
TEST_CASE(
    "Group Replication with several primaries: lease and unique_insert work, a row is not waited for, nor a "
    "wait queue [D1] "
    "<mysql>") {
  database_server const server(server_kind::mysql);
  mysql::source const source(server.address());
  migrator(source).up();
  auto const connect = [&] { return source.implementation()->connect(in(20'000)); };
  connect()->script("INSTALL PLUGIN group_replication SONAME 'group_replication.so'", in(20'000));
  CHECK_NOTHROW(connect()->expect_row_locks());  // one primary is the default
  CHECK(connect()->has_queues());
  connect()->script("SET GLOBAL group_replication_single_primary_mode = OFF", in(20'000));
  auto const c = connect();
  CHECK_FALSE(c->has_queues());
  auto const e = thrown_by([&] { c->wait_for_row({"w", "SELECT 1"}, {}, in(1000), 1s, {}); });
  CHECK(e.reason() == errc::unsupported);
  CHECK(std::string_view(e.what()).find("use lease or unique_insert") != std::string_view::npos);
  CHECK(c->usable());
  for (auto how : {strategy::lease, strategy::unique_insert}) {
    manager_options o;
    o.strategy = how;
    lock_manager m(source, o);
    CHECK(m.make_mutex(to_string(how)).try_acquire());
  }
}

}  // namespace rowlock::test
