// MySQL and MariaDB as they should not be, one thing after the other on one server.
#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "doctor/scene.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

bool is_mysql(server_scene const& s) { return s.kind == server_kind::mysql; }

}  // namespace

#define MYSQL_CASE(text) TEST_CASE_TEMPLATE(text, Server, on_mariadb, on_mysql)

MYSQL_CASE("durability: settings that do not flush") {
  server_scene const s(Server::kind, {.durable = true, .settings = {"log_bin = binlog", "server_id = 1"}});
  s.sql("SET GLOBAL sync_binlog = 0");
  expect(s.examine(), "durability", verdict::warning, "sync_binlog = 0", "sync_binlog = 1");
  s.sql("SET GLOBAL sync_binlog = 1");
  expect(s.examine(), "durability", verdict::ok, "each commit is flushed");
  s.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 0");
  expect(s.examine(), "durability", verdict::warning, "after a crash of the server",
         "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  s.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2");
  expect(s.examine(), "durability", verdict::warning, "after a power cut",
         "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  s.sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1");

  // The same server has a binary log: isolation.
  s.sql("SET GLOBAL binlog_format = 'STATEMENT'");
  auto const refused = s.examine();
  expect(refused, "isolation", verdict::error, "binlog_format = STATEMENT", "binlog_format = ROW");
  expect(refused, "grants", verdict::unknown, "doctor_may_");
}

MYSQL_CASE("durability: nothing is flushed, or pages may be torn") {
  {
    server_scene const s(Server::kind, {.durable = true, .settings = {"innodb_flush_method = nosync"}});
    expect(s.examine(), "durability", verdict::error, "innodb_flush_method = nosync",
           "Take innodb_flush_method");
  }
  server_scene const s(Server::kind, {.durable = true, .settings = {"innodb_doublewrite = OFF"}});
  expect(s.examine(), "durability", verdict::warning, "innodb_doublewrite = OFF", "innodb_doublewrite = ON");
}

MYSQL_CASE("takes: a database that grants none yet") {
  server_scene const s(Server::kind);
  expect(s.examine(), "takes", verdict::ok, "taken, renewed and given back");
  s.sql("UPDATE rowlock_pulse SET reach = 90000, made_by = made_by + 1");
  expect(s.examine(), "takes", verdict::warning, "grants none for 91 s", "Wait");
  CHECK(s.value("SELECT count(*) FROM rowlock_pulse") == "1");
}

MYSQL_CASE("grants, schema, writable: one by one") {
  server_scene const s(Server::kind, {.durable = true});
  s.sql("REVOKE INSERT, UPDATE ON rowlock_tokens FROM rowlock_locking");
  expect(s.examine(), "grants", verdict::error, "lacks INSERT on rowlock_tokens, UPDATE on rowlock_tokens (",
         "schema/*-grants.sql");
  s.sql("REVOKE SELECT, INSERT, DELETE ON rowlock_pulse FROM rowlock_locking");
  expect(s.examine(), "grants", verdict::error,
         "SELECT on rowlock_pulse, INSERT on rowlock_pulse, DELETE on rowlock_pulse (",
         "schema/*-grants.sql");
  s.sql("GRANT SELECT, INSERT, DELETE ON rowlock_pulse TO rowlock_locking");
  s.sql(
      "REVOKE SELECT ON rowlock_meta FROM rowlock_locking; REVOKE DELETE ON rowlock_locks FROM "
      "rowlock_locking");
  auto const few = s.examine();
  expect(few, "grants", verdict::error, "lacks SELECT on rowlock_meta, DELETE on rowlock_locks, INSERT on",
         "schema/*-grants.sql");
  expect(few, "schema", verdict::unknown, "needs a privilege that this role lacks");
  s.sql("GRANT ALL ON rowlock.* TO rowlock_locking");

  s.sql("SET GLOBAL read_only = 1");
  auto const reader = s.examine();
  expect(reader, "writable", verdict::error, "READ ONLY", "Connect to the primary");
  expect(reader, "grants", verdict::unknown, "needs a server that takes writes");
  auto const admin = examined(s.as_admin());
  expect(admin, "writable", verdict::error, "READ ONLY", "Connect to the primary");
  s.sql("SET GLOBAL read_only = 0");

  s.sql("UPDATE rowlock_meta SET schema_version = 1");
  expect(s.examine(), "schema", verdict::error, "the tables have version 1, this program needs 2",
         "rowlock migrate up");
  s.sql("UPDATE rowlock_meta SET schema_version = 9, oldest_reader = 9");
  expect(s.examine(), "schema", verdict::error, "serve programs made for version 9", "newer rowlock");
  expect(s.examine({.table_prefix = "nobody_"}), "schema", verdict::error, "has no rowlock tables",
         "rowlock migrate up");
}

MYSQL_CASE("isolation and timeouts: defaults that rowlock replaces, and those that it does not") {
  server_scene const s(Server::kind, {.durable = true});
  auto const limit = is_mysql(s) ? "max_execution_time" : "max_statement_time";
  s.sql(fmt::format(
      "SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET GLOBAL autocommit = 0; SET GLOBAL {} = 1",
      limit));
  auto all = s.examine();
  expect(all, "isolation", verdict::ok, "by default here: SERIALIZABLE, autocommit = OFF");
  expect(all, "timeouts", verdict::ok, fmt::format("{} = 1", limit));
  s.sql("SET GLOBAL wait_timeout = 10");
  expect(s.examine(), "timeouts", verdict::warning, "wait_timeout = 10", "wait_timeout = 11 or more");
  expect(s.examine({.ttl = 29s}), "timeouts", verdict::ok, "idle for 10 s");
  auto const with = [&](std::string const& text) {
    return examined(spoilt_by(text, source_from_url(s.as_app())));
  };
  expect(with("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"), "isolation", verdict::error,
         "REPEATABLE-READ with autocommit = ON", "proxy");
  expect(with("SET SESSION autocommit = 0"), "isolation", verdict::error, "autocommit = OFF", "proxy");
  expect(with(fmt::format("SET SESSION {} = 7", limit)), "timeouts", verdict::error,
         fmt::format("{} = 7", limit), "proxy");
}

MYSQL_CASE("index: engine, primary key, type of the names") {
  server_scene const s(Server::kind, {.durable = true});
  s.sql("ALTER TABLE rowlock_locks DROP PRIMARY KEY");
  expect(s.examine(), "index", verdict::error, "not found by a primary key", "ADD PRIMARY KEY (name)");
  s.sql("ALTER TABLE rowlock_locks ADD PRIMARY KEY (name, strategy)");
  expect(s.examine(), "index", verdict::error, "not found by a primary key", "ADD PRIMARY KEY (name)");
  s.sql("ALTER TABLE rowlock_locks DROP PRIMARY KEY; ALTER TABLE rowlock_locks ADD PRIMARY KEY (name)");
  expect(s.examine(), "index", verdict::ok, "primary key");
  s.sql(
      "ALTER TABLE rowlock_tokens MODIFY name VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci");
  expect(s.examine(), "index", verdict::error, "rowlock_tokens.name is varchar, utf8mb4_general_ci",
         "MODIFY name VARBINARY(255)");
  s.sql("ALTER TABLE rowlock_locks ENGINE = MyISAM");
  expect(s.examine(), "index", verdict::error, "rowlock_locks is stored by MyISAM", "ENGINE = InnoDB");
}

TEST_CASE("Galera: a node of a cluster, and one that has lost the rest of it <mariadb>") {
  server_scene const s(server_kind::mariadb, {.durable = true, .galera = true});
  expect(s.examine(), "galera", verdict::ok, "a cluster of 1: lease and unique_insert work");
  // A second member, without data, and not for long.
  auto const options = s.value("SELECT @@wsrep_provider_options");
  std::smatch listens;
  REQUIRE(std::regex_search(options, listens, std::regex("gmcast.listen_addr = tcp://([0-9.:]+)")));
  {
    scratch_folder const there;  // it leaves a file where it runs
    child_process const arbitrator({"/usr/bin/env", "--chdir", there.path().string(), "garbd", "--address",
                                    "gcomm://" + listens.str(1), "--group", "my_wsrep_cluster", "--options",
                                    "gmcast.listen_addr=tcp://127.0.0.1:0"});
    CHECK(eventually(
        [&] { return found(s.examine(), "galera").why.find("a cluster of 2") != std::string::npos; }));
  }
  // While the node finds out, somebody's look may still hold a row: "writable" says then that it had to wait.
  findings all;
  auto const writable = [&] { return found(all = s.examine(), "writable").why; };
  CHECK(eventually([&] { return writable().find("wsrep_ready is off") != std::string::npos; }));
  expect(all, "galera", verdict::error, "wsrep_cluster_status = non-Primary", "primary component");
  expect(all, "writable", verdict::unknown, "wsrep_ready is off");
  // A URL that names another host, too, leads there.
  server_scene const whole(server_kind::mariadb);
  auto const hosts_behind = [](server_scene const& one) {
    auto const url = one.as_app();
    return url.substr(url.find('@') + 1);
  };
  auto const here = hosts_behind(s);
  auto const both =
      fmt::format("mysql://app:secret@{},{}", here.substr(0, here.find('/')), hosts_behind(whole));
  expect(examined(both), "writable", verdict::ok, "");
}

TEST_CASE("group_replication: several primaries <mysql>") {
  server_scene const s(server_kind::mysql, {.durable = true});
  s.sql("INSTALL PLUGIN group_replication SONAME 'group_replication.so'");
  auto const one = s.examine();
  CHECK(std::none_of(one.begin(), one.end(), [](auto const& f) { return f.check == "group_replication"; }));
  s.sql("SET GLOBAL group_replication_single_primary_mode = OFF");
  auto const several = s.examine();
  expect(several, "group_replication", verdict::ok, "several primaries");
  expect(several, "waiting", verdict::ok, "tries again and again");
}
