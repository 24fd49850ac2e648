// Servers with a second one that follows them.
#include <fmt/format.h>
#include <libpq-fe.h>

#include <memory>
#include <regex>
#include <string>

#include "doctor/scene.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// One that was begun, and does not come to its end, as nobody reads it.
class base_backup {
 public:
  explicit base_backup(std::string const& conninfo)
      : connection_(PQconnectdb((conninfo + " replication=true").c_str()), &PQfinish) {
    bool const old = PQserverVersion(connection_.get()) < 150000;
    REQUIRE(PQsendQuery(connection_.get(), old ? "BASE_BACKUP FAST" : "BASE_BACKUP (CHECKPOINT 'fast')") ==
            1);
    REQUIRE(PQflush(connection_.get()) == 0);
  }

 private:
  std::unique_ptr<PGconn, decltype(&PQfinish)> const connection_;
};

}  // namespace

TEST_CASE(
    "replicas: D2: postgresql: an asynchronous standby, a synchronous one, none that is left, who may see "
    "it") {
  server_scene const s(server_kind::postgresql,
                       {.durable = true, .settings = {"wal_level = replica", "max_wal_senders = 4"}});
  expect(s.examine(), "replicas", verdict::ok, "no standby is connected");
  {
    base_backup const backup(s.as_admin());
    CHECK(eventually(
        [&] { return s.value("SELECT count(*) FROM pg_stat_replication WHERE state = 'backup'") == "1"; }));
    expect(examined(s.as_admin()), "replicas", verdict::ok, "no standby is connected");
  }
  CHECK(eventually([&] { return s.value("SELECT count(*) FROM pg_stat_replication") == "0"; }));
  {
    database_server const standby(server_kind::postgresql, {.standby_of = &s.server});
    auto const app_there = standby.address() + " user=app";
    CHECK(eventually([&] {
      return s.value("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == "1";
    }));
    expect(s.examine(), "replicas", verdict::warning, "the standby is asynchronous",
           "synchronous_standby_names");
    auto const there = examined(app_there);
    expect(there, "writable", verdict::error, "is a standby", "target_session_attrs=read-write");
    expect(there, "grants", verdict::unknown, "needs a server that takes writes");
    expect(there, "schema", verdict::ok, "version 2");

    s.set_for_all("synchronous_standby_names", "*");
    CHECK(eventually([&] {
      return s.value("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1";
    }));
    expect(s.examine(), "replicas", verdict::unknown, "needs pg_monitor", "GRANT pg_monitor TO app");
    expect(examined(s.as_admin()), "replicas", verdict::ok,
           "commits wait for a standby (1 synchronous of 1)");
    s.sql("SET synchronous_commit = local; GRANT pg_monitor TO app");
    expect(s.examine(), "replicas", verdict::ok, "1 synchronous of 1");
    s.set_for_all("synchronous_standby_names", "somebody");
    CHECK(eventually([&] {
      return s.value("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async'") == "1";
    }));
    expect(s.examine(), "replicas", verdict::error, "no commit ends", "Start the standby");
  }
  CHECK(eventually([&] { return s.value("SELECT count(*) FROM pg_stat_replication") == "0"; }));
  expect(s.examine(), "replicas", verdict::error, "no commit ends", "Start the standby");
}

namespace {

std::string port_of(std::string const& url) {
  std::smatch part;
  std::regex_search(url, part, std::regex("@127\\.0\\.0\\.1:([0-9]+)/"));
  return part.str(1);
}

database_server::options with_log(int id) {
  return {.durable = true,
          .settings = {"log_bin = binlog", "sync_binlog = 1", fmt::format("server_id = {}", id)}};
}

}  // namespace

TEST_CASE_TEMPLATE("replicas: one that is connected, semi-synchronous or not, and who may see it", Server,
                   on_mariadb, on_mysql) {
  bool const mysql = Server::kind == server_kind::mysql;
  server_scene const s(Server::kind, with_log(1));
  if (mysql) {
    expect(s.examine(), "replicas", verdict::unknown, "needs PROCESS", "GRANT PROCESS");
    s.sql("GRANT PROCESS ON *.* TO app@'%'");
  }
  expect(s.examine(), "replicas", verdict::ok, "no replica is connected");
  s.sql(mysql ? "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'" : "SELECT 1");
  s.sql("CREATE USER follower@'%' IDENTIFIED BY 'secret'; GRANT REPLICATION SLAVE ON *.* TO follower@'%'");

  database_server const replica(Server::kind, with_log(2));
  auto const there = [&](std::string const& text) {
    auto const soon = boot_clock::now() + 20s;
    source_from_url(replica.address()).implementation()->connect(soon)->script(text, soon);
  };
  if (mysql) there("INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'");
  // From here on only: both have made their accounts themselves.
  auto const port = port_of(s.as_admin());
  there(mysql ? fmt::format(
                    "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {}, SOURCE_USER = "
                    "'follower', SOURCE_PASSWORD = 'secret', GET_SOURCE_PUBLIC_KEY = 1; START REPLICA",
                    port)
              : fmt::format(
                    "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'follower', "
                    "MASTER_PASSWORD = 'secret', MASTER_USE_GTID = no; START SLAVE",
                    port));
  auto const says = [&](verdict v, std::string const& why) {
    CHECK(eventually([&] { return found(s.examine(), "replicas").why.find(why) != std::string::npos; }));
    expect(s.examine(), "replicas", v, why, v == verdict::ok ? "" : "Semi-synchronous");
  };
  says(verdict::warning, "the replica is asynchronous");
  s.sql(fmt::format("SET GLOBAL rpl_semi_sync_{}_enabled = 1", mysql ? "source" : "master"));
  says(verdict::warning, "has gone asynchronous");
  there(mysql
            ? "STOP REPLICA IO_THREAD; SET GLOBAL rpl_semi_sync_replica_enabled = 1; START REPLICA IO_THREAD"
            : "STOP SLAVE IO_THREAD; SET GLOBAL rpl_semi_sync_slave_enabled = 1; START SLAVE IO_THREAD");
  says(verdict::ok, "commits wait for a replica (1 semi-synchronous)");
}
