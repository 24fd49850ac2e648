// Which restarts of MySQL and MariaDB pause, a real failover, and what a crash of PostgreSQL forgets where
// the program flushes less. lib/doc/quarantine.md

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <regex>
#include <rowlock/postgresql.hpp>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

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

namespace {

/// A lock that is the last commit before a crash.
struct last_lock {
  char const* what;
  bool is_flushed;
  std::function<std::shared_ptr<void>(lock_manager&)> take;
};

template <class Lock>
std::shared_ptr<void> kept(Lock lock) {
  return std::make_shared<Lock>(std::move(lock));
}

std::function<std::shared_ptr<void>(lock_manager&)> mutex_with(mutex_options const& o) {
  return [o](lock_manager& m) { return kept(m.make_mutex("last", o).try_acquire()); };
}

std::vector<last_lock> last_locks() {
  mutex_options by_insert{.ttl = 30s};
  by_insert.strategy = strategy::unique_insert;
  auto fixed_by_insert = by_insert;
  fixed_by_insert.renew = false;
  auto const permit = [](bool fixed) {
    return [fixed](lock_manager& m) {
      return kept(m.make_semaphore("last", 3, {.ttl = 30s, .renew = !fixed}).try_acquire());
    };
  };
  return {{"a lease", false, mutex_with({.ttl = 30s})},
          {"a lease of six minutes", true, mutex_with({.ttl = 6min})},
          {"a fixed lease", true, mutex_with({.ttl = 30s, .renew = false})},
          {"one that is kept for a while", true, mutex_with({.ttl = 30s, .at_least = 10s})},
          {"one by insert", false, mutex_with(by_insert)},
          {"a fixed one by insert", true, mutex_with(fixed_by_insert)},
          {"a permit", false, permit(false)},
          {"a fixed permit", true, permit(true)},
          {"one of several", false,
           [](lock_manager& m) {
             return kept(m.try_acquire_all(std::vector<std::string>{"last", "other"}));
           }},
          {"a detached one", true, [](lock_manager& m) {
             auto got = m.make_mutex("last", {.ttl = 30s}).try_acquire();
             REQUIRE(got);
             return kept(got->detach());
           }}};
}

/// Whether the last lock before a crash is there after it.
bool is_there_after_crash(database_server& s, last_lock const& one) {
  // Otherwise each round would wait for the one before.
  session_to(s)->script(
      "INSERT INTO public.rowlock_pulse (safe_from, reach, until, begun, base) "
      "VALUES (clock_timestamp(), 300000, 'infinity', clock_timestamp(), 0)",
      in_half_a_minute());
  lock_manager m(postgresql::source(s.address() + " flush=off"), {.reply_timeout = 1s});
  (void)m.make_mutex("before").try_acquire();  // what the first take writes is flushed
  auto const lock = one.take(m);
  s.kill();
  s.restart();
  return number_from(
             s,
             "SELECT (SELECT count(*) FROM public.rowlock_locks WHERE name = 'last' AND term IS NOT NULL) + "
             "(SELECT count(*) FROM public.rowlock_permits)") > 0;
}

}  // namespace

TEST_CASE(
    "quarantine: with flush=off a crash forgets what ends with its process, and nothing else <postgresql>") {
  database_server s(
      server_kind::postgresql,
      {.durable = true,
       .settings = {"wal_writer_delay = 10s", "wal_writer_flush_after = 1GB", "autovacuum = off"}});
  auto const source = source_from_url(s.address());
  migrator(source).up();
  for (auto const& one : last_locks()) {
    CAPTURE(one.what);
    // The server can have flushed it just before the crash.
    bool there = true;
    for (int tries = 0; there && tries < (one.is_flushed ? 1 : 5); ++tries) {
      there = is_there_after_crash(s, one);
      session_to(s)->script("DELETE FROM public.rowlock_locks; DELETE FROM public.rowlock_permits",
                            in_half_a_minute());
    }
    CHECK(there == one.is_flushed);
  }
  is_there_after_crash(s, last_locks().front());
  CHECK(take_from(s) == acquire_status::quarantined);
}
