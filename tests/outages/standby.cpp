// A primary whose commits wait for a standby, and what only one of the two has.
#include <doctest/doctest.h>

#include <chrono>
#include <future>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string>

#include "backend/backend.hpp"
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
    there->script("ALTER SYSTEM SET primary_conninfo = ''", in_time());
    there->script("SELECT pg_reload_conf()", in_time());
    auto const here = session_on(primary);
    REQUIRE(eventually([&] { return one_number(*here, "SELECT count(*) FROM pg_stat_replication") == 0; }));
  }
  database_server primary{server_kind::postgresql,
                          {.durable = true, .settings = {"wal_level = replica", "max_wal_senders = 4"}}};
  std::optional<database_server> standby;
};

}  // namespace

// Whoever ends the session ends the wait as well, and then others read what it has committed.
TEST_CASE("postgresql: D2: a take that no standby has is not held, although it can be read back") {
  primary_and_standby p;
  lock_manager m(source_from_url(p.primary.address()), {.reply_timeout = 6s});
  auto const admin = session_on(p.primary);
  CHECK(m.make_mutex("x").try_acquire());
  REQUIRE(eventually([&] {
    return one_number(*session_on(*p.standby),
                      "SELECT count(*) FROM public.rowlock_locks WHERE term IS NULL") == 1;
  }));
  p.cut();
  auto taking = std::async(std::launch::async, [&]() -> std::optional<held_lock> {
    try {
      if (auto got = m.make_mutex("x", {.ttl = 5min}).try_acquire()) return std::move(*got);
    } catch (error const& e) {
      CHECK(e.reason() == errc::in_doubt);
    }
    return std::nullopt;
  });
  REQUIRE(eventually([&] {
    return one_number(
               *admin,
               "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") >
           0;
  }));
  REQUIRE(eventually([&] {
    return one_number(*admin,
                      "SELECT count(*) FROM public.rowlock_locks WHERE name = 'x' AND term IS NOT NULL") == 1;
  }));
  auto const first = taking.get();
  p.primary.kill();
  CHECK(one_number(*session_on(*p.standby), "SELECT pg_promote()::int") == 1);
  lock_manager other(source_from_url(p.standby->address()));
  auto const second = other.make_mutex("x").try_acquire();
  bool const both = first && first->valid() && second;
  CHECK_FALSE(both);
  CHECK(second);
}
