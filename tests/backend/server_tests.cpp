// Sessions on a PostgreSQL server that is paused, killed and restarted, or waits for a standby.

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <rowlock/migrator.hpp>
#include <rowlock/postgresql.hpp>
#include <thread>

#include "backend/database.hpp"
#include "support/database_server.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using namespace std::chrono_literals;

backend::statement const add_row{"add_row", "INSERT INTO public.t VALUES (1)"};
backend::statement const count_rows{"count_rows", "SELECT count(*) FROM public.t"};

// A server with an empty table, and a session on it that has the statements prepared.
struct scene {
  database_server server{server_kind::postgresql};
  postgresql::source source{server.address()};
  std::unique_ptr<backend::connection> c = connect(10'000);

  scene() {
    c->script("CREATE TABLE public.t (a int)", in(20'000));
    c->execute(add_row, {}, in(20'000));
    c->execute(count_rows, {}, in(20'000));
  }
  std::unique_ptr<backend::connection> connect(int ms) const {
    return source.implementation()->connect(in(ms));
  }
  error connect_error(int ms) const {
    return thrown_by([&] { connect(ms); });
  }
};

}  // namespace

TEST_CASE("postgresql server paused: in doubt at the deadline, no new sessions until it goes on") {
  scene s;
  s.server.pause();
  auto const start = boot_clock::now();
  CHECK(thrown_by([&] { s.c->execute(add_row, {}, in(2000)); }).reason() == errc::in_doubt);
  CHECK(s.connect_error(300).reason() == errc::unreachable);
  CHECK(boot_clock::now() - start < 20s);
  s.server.resume();
  auto const c = s.connect(10'000);
  auto const until = in(20'000);
  while (as_int(c->execute(count_rows, {}, in(20'000)).rows.at(0).at(0)) < 2)
    REQUIRE(boot_clock::now() < until);
}

TEST_CASE("postgresql server killed: what was idle is unreachable, what was running is in doubt") {
  scene s;
  auto const busy = s.connect(5000);
  std::jthread killer([&] {
    auto const watch = s.connect(5000);
    backend::statement const sleeping{"sleeping",
                                      "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"};
    while (as_int(watch->execute(sleeping, {}, in(20'000)).rows.at(0).at(0)) == 0) continue;
    s.server.kill();
  });
  CHECK(thrown_by([&] {
          busy->execute({"sleep", "SELECT pg_sleep(60)"}, {}, in(60'000));
        }).reason() == errc::in_doubt);
  CHECK(!busy->usable());
  killer.join();  // until then the idle session may still live
  CHECK(thrown_by([&] { s.c->execute(add_row, {}, in(20'000)); }).reason() == errc::unreachable);
  CHECK(s.connect_error(2000).reason() == errc::unreachable);
}

// It says so by a warning, before it hangs up.
TEST_CASE(
    "postgresql server ends all its sessions at once: what was idle is unreachable, and nothing was sent") {
  scene s;
  SUBCASE("immediate shutdown") { s.server.stop(); }
  SUBCASE("one of its processes crashed") {
    auto const other = s.connect(5000);
    auto const pid =
        as_int(other->execute({"pid", "SELECT pg_backend_pid()"}, {}, in(20'000)).rows.at(0).at(0));
    REQUIRE(::kill(static_cast<pid_t>(pid), SIGKILL) == 0);
    auto const until = in(20'000);
    while (s.c->alive()) REQUIRE(boot_clock::now() < until);
  }
  CHECK_FALSE(s.c->alive());
  CHECK(thrown_by([&] { s.c->execute(add_row, {}, in(20'000)); }).reason() == errc::unreachable);
}

TEST_CASE("postgresql server restarted: another identity, the same rows") {
  scene s;
  auto const before = s.c->server_identity();
  s.server.kill();
  s.server.restart();
  CHECK(thrown_by([&] { s.c->execute(add_row, {}, in(20'000)); }).reason() == errc::unreachable);
  auto const c = s.connect(10'000);
  CHECK(c->server_identity() != before);
  CHECK(as_int(c->execute(count_rows, {}, in(20'000)).rows.at(0).at(0)) == 1);
}

TEST_CASE("postgresql: a commit whose wait for the standby was cancelled is in doubt") {
  scene s;
  for (char const* setting : {"wal_level = 'replica'", "max_wal_senders = 1"})
    s.c->script(std::string("ALTER SYSTEM SET ") + setting, in(20'000));
  s.server.stop();
  s.server.restart();
  std::string how;
  SUBCASE("in a session") {}
  SUBCASE("C19: in a transaction by way of a pooler") { how = " pooler=transaction"; }
  auto const c = postgresql::source(s.server.address() + how).implementation()->connect(in(20'000));
  auto const watch = s.connect(5000);
  c->script("CREATE TABLE IF NOT EXISTS public.t (a int)", in(20'000));
  watch->script("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", in(20'000));
  watch->script("SELECT pg_reload_conf()", in(20'000));
  backend::statement const cancel{
      "cancel", "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"};
  std::jthread const canceller([&] {
    while (watch->execute(cancel, {}, in(20'000)).rows.empty()) continue;
  });
  // The server answers it with success, and a warning.
  auto const until = in(20'000);
  auto const e = thrown_by([&] {
    while (boot_clock::now() < until) c->execute(add_row, {}, until);  // until the setting has arrived
  });
  CHECK(e.reason() == errc::in_doubt);
  CHECK(std::string_view(e.what()).find("standby") != std::string_view::npos);
  CHECK(!c->usable());
}

// A plain statement that times out is an error with two lines in the log.
TEST_CASE("postgresql server: C52: waits at a wait queue that end by their time leave nothing in the log") {
  scene s;
  migrator(connection_source(s.source)).up();
  auto const waits = s.connect(5000);
  backend::table_names const names("public", "rowlock_");
  auto const enter = [&](backend::connection& c, int ms) {
    return c.enter_queue(names, "x", "who", in(ms), 5s, {});
  };
  REQUIRE(enter(*s.c, 20'000) == backend::queue_entry::was_free);
  auto const before = s.server.log();
  for (int i = 0; i < 5; ++i) CHECK(enter(*waits, 50) == backend::queue_entry::not_mine);
  CHECK_THROWS(waits->script("SELECT 1 / 0 AS seen_in_the_log", in(20'000)));
  auto const after = s.server.log().substr(before.size());
  CHECK(after.find("seen_in_the_log") != after.npos);
  CHECK_MESSAGE(after.find("timeout") == after.npos, after);
}

}  // namespace rowlock::test
