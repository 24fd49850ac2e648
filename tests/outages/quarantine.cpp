// MySQL and MariaDB: which restarts pause, and a real failover. lib/doc/quarantine.md

#include <doctest/doctest.h>

#include <regex>
#include <rowlock/rowlock.hpp>
#include <string>

#include "backend/backend.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

boot_time_point in_half_a_minute() { return boot_clock::now() + 30s; }

std::unique_ptr<backend::connection> session_to(database_server const& s) {
  return source_from_url(s.address()).implementation()->connect(in_half_a_minute());
}

std::int64_t number_from(database_server const& s, std::string const& sql) {
  return backend::as_int(session_to(s)->execute({"number", sql}, {}, in_half_a_minute()).rows.at(0).at(0));
}

/// By a program that has just begun.
acquire_status take_from(database_server const& s, std::string const& name = "x",
                         std::chrono::milliseconds patience = 0ms) {
  lock_manager m(source_from_url(s.address()));
  auto mutex = m.make_mutex(name, {.ttl = 1s});
  auto const got = patience == 0ms ? mutex.try_acquire() : mutex.try_acquire_for(patience);
  return got.status();
}

void restart_and_take(server_kind kind) {
  database_server s(kind, {.durable = true});
  migrator(source_from_url(s.address())).up();
  CHECK(take_from(s) == acquire_status::acquired);
  s.kill();
  s.restart();
  CHECK(take_from(s) == acquire_status::acquired);
  CHECK(number_from(s, "SELECT count(*) FROM rowlock_pulse WHERE made_in <> 0") == 0);

  // What is granted from now on can be lost.
  session_to(s)->script("SET GLOBAL innodb_flush_log_at_trx_commit = 2", in_half_a_minute());
  CHECK(take_from(s) == acquire_status::quarantined);
  CHECK(take_from(s, "x", 60s) == acquire_status::acquired);
  session_to(s)->script("SET GLOBAL innodb_flush_log_at_trx_commit = 1", in_half_a_minute());
  CHECK(take_from(s) == acquire_status::acquired);
  s.kill();
  s.restart();
  CHECK(take_from(s) == acquire_status::quarantined);
  CHECK(take_from(s, "x", 60s) == acquire_status::acquired);
  s.kill();
  s.restart();
  CHECK(take_from(s) == acquire_status::acquired);

  // Another name for the same server, while sessions live.
  lock_manager m(source_from_url(s.address()));
  auto mutex = m.make_mutex("y", {.ttl = 1s});
  CHECK(mutex.try_acquire());
  session_to(s)->script("SET GLOBAL server_id = 77", in_half_a_minute());
  CHECK(mutex.try_acquire());
  CHECK(take_from(s) == acquire_status::quarantined);
  CHECK(mutex.try_acquire().status() == acquire_status::quarantined);
  CHECK(mutex.try_acquire_for(60s));
  CHECK(take_from(s) == acquire_status::acquired);
}

}  // namespace

TEST_CASE("quarantine: a restart pauses only where a crash can have forgotten commits <mariadb>") {
  restart_and_take(server_kind::mariadb);
}

TEST_CASE("quarantine: a restart pauses only where a crash can have forgotten commits <mysql>") {
  restart_and_take(server_kind::mysql);
}

TEST_CASE(
    "quarantine: a replica that has not heard of a lock is promoted, and grants it only when it is over "
    "<mariadb>") {
  database_server a(server_kind::mariadb, {.settings = {"log_bin = a", "server_id = 11"}});
  database_server b(server_kind::mariadb, {.settings = {"log_bin = b", "server_id = 12"}});
  std::smatch of;
  REQUIRE(std::regex_search(a.address(), of, std::regex("//([^:]*):([^@]*)@([^:]*):([0-9]*)/")));
  session_to(a)->script("RESET MASTER", in_half_a_minute());
  session_to(b)->script("RESET MASTER", in_half_a_minute());
  session_to(b)->script("CHANGE MASTER TO master_host = '" + of[3].str() + "', master_port = " + of[4].str() +
                            ", master_user = '" + of[1].str() + "', master_password = '" + of[2].str() +
                            "', master_use_gtid = slave_pos",
                        in_half_a_minute());
  session_to(b)->script("START SLAVE", in_half_a_minute());
  migrator(source_from_url(a.address())).up();
  CHECK(take_from(a, "heard of") == acquire_status::acquired);
  REQUIRE(eventually([&] {
    try {
      return number_from(
                 b,
                 "SELECT count(*) FROM rowlock_locks WHERE name = 'heard of' AND term IS NULL AND token > "
                 "0") == 1;
    } catch (error const&) {
      return false;  // there is no such table yet
    }
  }));
  session_to(b)->script("STOP SLAVE", in_half_a_minute());
  lock_manager m(source_from_url(a.address()));
  auto held = m.make_mutex("x", {.ttl = 1s}).try_acquire();
  REQUIRE(held);
  a.kill();
  CHECK(held->valid());
  CHECK(take_from(b) == acquire_status::quarantined);
  CHECK(take_from(b, "heard of") == acquire_status::quarantined);
  CHECK(take_from(b, "x", 60s) == acquire_status::acquired);
  CHECK_FALSE(held->valid());

  // Back, with all that was written since: it was primary before, and begins anew.
  a.restart();
  auto const back = session_to(a);
  back->script("DELETE FROM rowlock_pulse", in_half_a_minute());
  auto const rows =
      session_to(b)
          ->execute({"pulses",
                     "SELECT group_concat(concat_ws(',', concat('''', begun, ''''), concat('''', until, "
                     "''''), reach, id, concat('''', "
                     "safe_from, ''''), base, made_by, made_in) SEPARATOR '),(') FROM rowlock_pulse"},
                    {}, in_half_a_minute())
          .rows;
  back->script("INSERT INTO rowlock_pulse VALUES (" + backend::as_text(rows.at(0).at(0)) + ")",
               in_half_a_minute());
  CHECK(take_from(a) == acquire_status::quarantined);
  CHECK(take_from(a, "x", 60s) == acquire_status::acquired);
}
