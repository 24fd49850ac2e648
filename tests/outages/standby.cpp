// A primary whose commits wait for a standby, and what only one of the two has.
#include <doctest/doctest.h>
#include <libpq-fe.h>

#include <chrono>
#include <fstream>
#include <future>
#include <optional>
#include <regex>
#include <rowlock/once.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <rowlock/rowlock.hpp>
#include <string>

#include "backend/backend.hpp"
#include "backend/postgresql/native.hpp"
#include "cli/program.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

boot_time_point in_time() { return boot_clock::now() + 20s; }

std::unique_ptr<backend::connection> session_on(database_server const& s) {
  return source_from_url(s.address()).implementation()->connect(in_time());
}

std::int64_t one_number(backend::connection& c, std::string const& sql) {
  return backend::as_int(c.execute({"number", sql}, {}, in_time()).rows.at(0).at(0));
}

struct primary_and_standby {
  primary_and_standby() {
    migrator(source_from_url(primary.address())).up();
    standby.emplace(server_kind::postgresql, database_server::options{.standby_of = &primary});
    auto const admin = session_on(primary);
    admin->script("ALTER SYSTEM SET synchronous_standby_names = 'walreceiver'", in_time());
    admin->script("SELECT pg_reload_conf()", in_time());
    REQUIRE(eventually([&] {
      return one_number(*admin, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1;
    }));
    // The checkpointer says so to all sessions. After its next checkpoint it has.
    admin->script("CHECKPOINT", in_time());
  }
  /// From now on no commit ends.
  void cut() {
    auto const there = session_on(*standby);
    auto const told = there->execute({"conninfo", "SHOW primary_conninfo"}, {}, in_time());
    conninfo_ = backend::as_text(told.rows.at(0).at(0));
    follow(*there, "");
    auto const here = session_on(primary);
    REQUIRE(eventually([&] { return one_number(*here, "SELECT count(*) FROM pg_stat_replication") == 0; }));
  }
  /// They end again.
  void mend() { follow(*session_on(*standby), conninfo_); }
  database_server primary{server_kind::postgresql,
                          {.durable = true, .settings = {"wal_level = replica", "max_wal_senders = 4"}}};
  std::optional<database_server> standby;

 private:
  static void follow(backend::connection& there, std::string const& conninfo) {
    auto const quoted = std::regex_replace(conninfo, std::regex("'"), "''");
    there.script("ALTER SYSTEM SET primary_conninfo = '" + quoted + "'", in_time());
    there.script("SELECT pg_reload_conf()", in_time());
  }
  std::string conninfo_;
};

/// Whoever ends a session ends its wait for the standby as well, and then others read what it has committed.
bool end_who_waits(backend::connection& admin) {
  return one_number(
             admin,
             "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") >
         0;
}

}  // namespace

TEST_CASE("postgresql: D2: a take that no standby has is not held, although it can be read back") {
  primary_and_standby p;
  lock_manager m(source_from_url(p.primary.address()), {.reply_timeout = 6s});
  auto const admin = session_on(p.primary);
  // No later ttl is longer: the longest is flushed before, and no commit of that would end either.
  CHECK(m.make_mutex("x", {.ttl = 40s}).try_acquire());
  REQUIRE(eventually([&] {
    return one_number(*session_on(*p.standby),
                      "SELECT count(*) FROM public.rowlock_locks WHERE term IS NULL") == 1;
  }));
  p.cut();
  auto taking = std::async(std::launch::async, [&]() -> std::optional<held_lock> {
    try {
      if (auto got = m.make_mutex("x", {.ttl = 40s}).try_acquire()) return std::move(*got);
    } catch (error const& e) {
      CHECK(e.reason() == errc::in_doubt);
    }
    return std::nullopt;
  });
  REQUIRE(eventually([&] { return end_who_waits(*admin); }));
  REQUIRE(eventually([&] {
    return one_number(*admin,
                      "SELECT count(*) FROM public.rowlock_locks WHERE name = 'x' AND term IS NOT NULL") == 1;
  }));
  auto const first = taking.get();
  p.primary.kill();
  CHECK(one_number(*session_on(*p.standby), "SELECT pg_promote()::int") == 1);
  lock_manager other(source_from_url(p.standby->address()));
  CHECK(other.make_mutex("x").try_acquire().status() == acquire_status::quarantined);
  auto const second = other.make_mutex("x").try_acquire_for(90s);
  bool const both = first && first->valid() && second;
  CHECK_FALSE(both);
  CHECK(second);
}

// By its handle, and by a transaction of the program's that has not looked at what came of its COMMIT.
TEST_CASE(
    "postgresql: D2: a record that no standby has is not said to be made, although it can be read back") {
  primary_and_standby p;
  lock_manager m(source_from_url(p.primary.address()), {.reply_timeout = 2s});
  lock_manager other(source_from_url(p.primary.address()));
  auto const admin = session_on(p.primary);
  backend::postgresql::native_connection const program(PQconnectdb(p.primary.address().c_str()));
  PQsetNoticeProcessor(
      program.get(), [](void*, char const*) {}, nullptr);
  auto const run = [&](char const* sql) {
    return PQresultStatus(backend::postgresql::native_result(PQexec(program.get(), sql)).get()) ==
           PGRES_COMMAND_OK;
  };
  for (std::string const key : {"by its handle", "in a transaction"}) {
    CAPTURE(key);
    bool const in_transaction = key == "in a transaction";
    auto const is_recorded = [&](backend::connection& c) {
      return one_number(c, "SELECT count(*) FROM public.rowlock_locks WHERE name = '" + key +
                               "' AND term IS NOT NULL AND owner_process IS NULL") == 1;
    };
    std::promise<void> works;
    std::promise<void> goes_on;
    auto saying = std::async(std::launch::async, [&] {
      return run_once(m, key, 1h,
                      [&](once_run& one) {
                        if (in_transaction) {
                          CHECK(run("BEGIN"));
                          postgresql::transaction(m, program.get()).done(one);
                        }
                        works.set_value();
                        goes_on.get_future().wait();
                        if (in_transaction) CHECK_FALSE(run("COMMIT"));
                      },
                      {.ttl = 5min});
    });
    works.get_future().wait();
    p.cut();
    goes_on.set_value();
    REQUIRE(eventually([&] { return end_who_waits(*admin); }));
    REQUIRE(eventually([&] { return is_recorded(*admin); }));
    auto const has_said = [&] { return saying.wait_for(0s) == std::future_status::ready; };
    REQUIRE(eventually([&] {
      return has_said() ||
             one_number(*admin, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") > 0;
    }));
    CHECK_FALSE(has_said());
    // Others read what the server shows to all: lib/doc/once.md.
    auto const seen = other.find(key);
    CHECK((seen && seen->holder.done));
    p.mend();
    CHECK(saying.get().status == once_status::ran);
    CHECK(eventually([&] { return is_recorded(*session_on(*p.standby)); }));
  }
}

// The commands end while the primary is gone and the standby is none yet that takes writes.
TEST_CASE(
    "postgresql: C70: after a switch-over run gives back, and once records, on the other host of the "
    "address") {
  primary_and_standby p;
  auto const port = [](database_server const& s) {
    std::smatch found;
    auto const address = s.address();
    REQUIRE(std::regex_search(address, found, std::regex("port=([0-9]+)")));
    return found[1].str();
  };
  auto const both =
      std::regex_replace(std::regex_replace(p.primary.address(), std::regex("host=([^ ]+)"), "host=$1,$1"),
                         std::regex("port=[0-9]+"), "port=" + port(p.primary) + "," + port(*p.standby)) +
      " target_session_attrs=read-write";
  scratch_folder const folder;
  auto const done = folder.file("done");
  auto const start = [&](words all) {
    all.insert(all.begin(), rowlock_program);
    all.insert(all.end(), {"--ttl", "90s", "--", "sh", "-c",
                           "echo ready; while [ ! -e " + done + " ]; do sleep 0.1; done"});
    return std::make_unique<program>(all, environment{{"ROWLOCK_DB", both}});
  };
  auto const run = start({"run", "x"});
  auto const once = start({"once", "y", "--for", "1h"});
  REQUIRE(run->prints("ready"));
  REQUIRE(once->prints("ready"));
  p.primary.kill();
  std::ofstream(done).close();
  CHECK(eventually([&] { return run->err().find("could not be given back yet") != std::string::npos; }));
  CHECK(one_number(*session_on(*p.standby), "SELECT pg_promote()::int") == 1);
  CHECK(run->wait() == 0);
  CHECK(run->err().find("may not have been given back") == std::string::npos);
  CHECK(once->wait() == 0);
  lock_manager m(source_from_url(p.standby->address()));
  // Has no holder: else it would be busy.
  CHECK(m.make_mutex("x").try_acquire().status() == acquire_status::quarantined);
  auto const row = m.find("y");
  CHECK((row && row->holder.done));
}
