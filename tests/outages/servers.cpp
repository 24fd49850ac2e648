// Servers that are stopped, killed, restarted, read-only, full. One of the test's own each time.
#include <fmt/format.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <regex>
#include <rowlock/rowlock.hpp>
#include <thread>

#include "cli/program.hpp"
#include "process/taker.hpp"
#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A server with the tables in it, and an account with no more rights than programs have.
struct away_fixture {
  explicit away_fixture(server_kind k, database_server::options o = {}) : kind(k), server(k, o) {
    migrator(source_from_url(server.address())).up();
    auto const session = as_admin();
    session->script(postgresql()
                        ? "CREATE ROLE app LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO app"
                        : "CREATE USER app@'%' IDENTIFIED BY 'secret'; GRANT SELECT, INSERT, UPDATE, "
                          "DELETE ON rowlock.* TO app@'%'",
                    soon());
  }
  bool postgresql() const { return kind == server_kind::postgresql; }
  static boot_time_point soon() { return boot_clock::now() + 20s; }
  std::unique_ptr<backend::connection> as_admin() const {
    return source_from_url(server.address()).implementation()->connect(soon());
  }
  std::string as_app() const {
    return postgresql() ? server.address() + " user=app"
                        : std::regex_replace(server.address(), std::regex("//[^@]*@"), "//app:secret@");
  }
  /// As after a switch-over, for everybody and at once.
  void set_read_only(bool on) const {
    auto const session = as_admin();
    auto const value = on ? "on" : "off";
    if (!postgresql()) return session->script(fmt::format("SET GLOBAL read_only = {}", value), soon());
    session->script("SET default_transaction_read_only = off", soon());
    session->script(fmt::format("ALTER SYSTEM SET default_transaction_read_only = {}", value), soon());
    session->script("SELECT pg_reload_conf()", soon());
  }

  server_kind kind;
  database_server server;
};

/// Some hold a lock each, as many others wait for those.
struct crowd {
  crowd(std::string const& url, int size, std::chrono::milliseconds ttl) {
    for (int i = 0; i < size; ++i) {
      auto const name = "crowd/" + std::to_string(i);
      holders.push_back(std::make_unique<taker>(url, "", name, ttl));
      waiters.push_back(std::make_unique<taker>(url, "", name, ttl));
    }
    for (auto& h : holders) REQUIRE(h->take(60s));
    for (auto& w : waiters) w->write_line("take 600000");
  }
  /// Everybody goes on: no holder lost its lock, each gives back, and then its waiter gets it.
  void check() {
    for (auto& h : holders) CHECK(h->ask("look") == "valid 1 held");
    for (auto& h : holders) CHECK(h->ask("release").starts_with("released"));
    for (auto& w : waiters) CHECK(w->next_line(120s).value_or("nothing").starts_with("taken"));
  }
  std::vector<std::unique_ptr<taker>> holders;
  std::vector<std::unique_ptr<taker>> waiters;
};

/// 5 unless ROWLOCK_TEST_CROWD says otherwise.
int crowd_size() {
  char const* set = std::getenv("ROWLOCK_TEST_CROWD");
  return set == nullptr ? 5 : std::stoi(set);
}

std::optional<errc> refused(std::function<void()> const& call) {
  try {
    call();
    return std::nullopt;
  } catch (error const& e) {
    return e.reason();
  }
}

template <server_kind Kind>
struct on_server {
  static constexpr server_kind kind = Kind;
};
using on_postgresql = on_server<server_kind::postgresql>;
using on_mariadb = on_server<server_kind::mariadb>;
using on_mysql = on_server<server_kind::mysql>;

}  // namespace

TYPE_TO_STRING_AS("postgresql", on_postgresql);
TYPE_TO_STRING_AS("mariadb", on_mariadb);
TYPE_TO_STRING_AS("mysql", on_mysql);

#define SERVER_CASE(text) TEST_CASE_TEMPLATE("server " text, Server, on_postgresql, on_mariadb, on_mysql)

SERVER_CASE("stopped for 5 s within a ttl of 30 s: no lease is lost and waiters go on") {
  away_fixture f(Server::kind, {.max_connections = 50 + 4 * crowd_size()});
  crowd all(f.as_app(), crowd_size(), 30s);
  f.server.pause();
  std::this_thread::sleep_for(5s);  // what is to be lived through
  f.server.resume();
  all.check();
}

SERVER_CASE("killed and restarted within the ttl: no lease is lost and waiters go on") {
  away_fixture f(Server::kind, {.durable = true, .max_connections = 50 + 4 * crowd_size()});
  crowd all(f.as_app(), crowd_size(), 60s);
  f.server.kill();
  f.server.restart();
  all.check();
}

SERVER_CASE("away for longer than the ttl: loss is reported before trust ends") {
  away_fixture f(Server::kind);
  // Half a second before trust ends it is told, which is for a busy machine.
  taker holder(f.as_app(), "", "x", 10s);
  REQUIRE(holder.take(0ms));
  SUBCASE("stopped") { f.server.pause(); }
  SUBCASE("killed") { f.server.kill(); }
  auto const said = holder.next_line().value_or("nothing");
  CAPTURE(said);
  REQUIRE(said.starts_with("lost database unreachable "));
  CHECK(std::stol(said.substr(std::string("lost database unreachable ").size())) > 0);
}

SERVER_CASE("read-only after a switch-over: told as that, and ridden out by those who wait and hold") {
  away_fixture f(Server::kind);
  taker holder(f.as_app(), "", "held", 600s);
  REQUIRE(holder.take(0ms));
  lock_manager m(f.as_app());
  auto short_lease = m.make_mutex("short", {.ttl = 15s}).acquire();
  auto row = m.make_mutex("row", {.strategy = strategy::row_lock, .ttl = 15s}).acquire();
  auto waiting =
      std::async(std::launch::async, [&] { return bool(m.make_mutex("held").try_acquire_for(600s)); });
  f.set_read_only(true);
  CHECK(
      eventually([&] { return refused([&] { (void)m.make_mutex("x").try_acquire(); }) == errc::read_only; }));
  auto late = std::async(std::launch::async, [&] { return bool(m.make_mutex("y").try_acquire_for(600s)); });
  lock_manager stranger(f.as_app());
  CHECK(refused([&] { (void)stranger.make_mutex("x").acquire(); }) == errc::read_only);
  CHECK(eventually([&] { return short_lease->loss() == loss_reason::read_only; }));
  CHECK(holder.ask("look") == "valid 1 held");
  CHECK(holder.ask("release") == "released in doubt");
  CHECK(eventually([&] { return row->loss() == loss_reason::read_only; }));
  f.set_read_only(false);
  CHECK(waiting.get());  // the keeper gave it back
  CHECK(late.get());
  CHECK(m.make_mutex("x").try_acquire_for(60s));
}

// Sessions stay alive, and their row locks with them, and the new primary grants the same locks.
SERVER_CASE(
    "C63: a row lock is lost within a ping of a switch-over that ends no sessions, and none is granted") {
  away_fixture f(Server::kind);
  lock_manager m(f.as_app());
  mutex_options const brief{.strategy = strategy::row_lock, .ttl = 3s};
  CHECK(m.make_mutex("free", brief).try_acquire());  // from now on there is an anchor
  std::mutex mutex;
  std::string said;
  lock_manager holders(f.as_app(), {.on_event = [&](event const& e) {
                         std::lock_guard const guard(mutex);
                         if (e.kind == event_kind::error) said = e.message;
                       }});
  auto const held = holders.make_mutex("held", brief).try_acquire();
  REQUIRE(held);
  f.set_read_only(true);
  CHECK(eventually([&] { return held->loss() == loss_reason::read_only; }));
  CHECK_FALSE(held->valid());
  CHECK(eventually([&] {  // what a ping has met is told behind the loss
    std::lock_guard const guard(mutex);
    return said.find("takes no writes any more") != std::string::npos;
  }));
  CHECK(refused([&] { (void)m.make_mutex("free", brief).try_acquire(); }) == errc::read_only);
  f.set_read_only(false);
  CHECK(m.make_mutex("held", brief).try_acquire_for(60s));  // the session that had it is closed
}

SERVER_CASE(
    "C70: read-only when commands end: run gives back, and once records, as soon as writes work again") {
  away_fixture f(Server::kind);
  scratch_folder const folder;
  auto const done = folder.file("done");
  auto const start = [&](words all) {
    all.insert(all.begin(), rowlock_program);
    all.insert(all.end(), {"--ttl", "90s", "--", "sh", "-c",
                           "echo ready; while [ ! -e " + done + " ]; do sleep 0.1; done"});
    return std::make_unique<program>(all, environment{{"ROWLOCK_DB", f.as_app()}});
  };
  auto const run = start({"run", "x"});
  auto const once = start({"once", "y", "--for", "1h"});
  REQUIRE(run->prints("ready"));
  REQUIRE(once->prints("ready"));
  lock_manager m(f.as_app());
  REQUIRE(m.make_mutex("z").try_acquire());
  f.set_read_only(true);
  REQUIRE(
      eventually([&] { return refused([&] { (void)m.make_mutex("z").try_acquire(); }) == errc::read_only; }));
  std::ofstream(done).close();
  CHECK(eventually([&] { return run->err().find("could not be given back yet") != std::string::npos; }));
  f.set_read_only(false);
  CHECK(run->wait() == 0);
  CHECK(run->err().find("may not have been given back") == std::string::npos);
  CHECK(once->wait() == 0);
  CHECK(m.make_mutex("x").try_acquire_for(60s));
  auto const row = m.find("y");
  CHECK((row && row->holder.done));
}

// As behind one name that leads to the new primary since: sessions that were opened before stay with the
// former one.
SERVER_CASE("read-only to its old sessions only, after a switch-over: none of those is used again") {
  away_fixture f(Server::kind);
  auto const new_sessions_read_only = [&](bool on) {
    auto const session = f.as_admin();
    if (f.postgresql())
      session->script(on ? "ALTER ROLE app SET default_transaction_read_only = on"
                         : "ALTER ROLE app RESET default_transaction_read_only",
                      f.soon());
    else
      session->script(on ? "SET GLOBAL init_connect = 'SET SESSION TRANSACTION READ ONLY'"
                         : "SET GLOBAL init_connect = ''",
                      f.soon());
  };
  std::atomic<int> failed{0};
  manager_options o;
  o.on_event = [&](event const& e) { failed += e.kind == event_kind::error ? 1 : 0; };
  lock_manager m(f.as_app(), o);
  auto held = m.make_mutex("held", {.ttl = 15s}).acquire();
  new_sessions_read_only(true);
  REQUIRE(eventually([&] { return failed > 0; }));  // the keeper's session is one of these
  lock_manager late(f.as_app());
  for (auto const how : {strategy::lease, strategy::unique_insert})
    CHECK(refused([&] { (void)late.make_mutex("x", {.strategy = how}).try_acquire(); }) == errc::read_only);
  new_sessions_read_only(false);
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    auto lock = late.make_mutex(to_string(how), {.strategy = how}).try_acquire();
    REQUIRE(lock);
    CHECK(lock->release() == release_result::released);
  }
  CHECK(late.make_mutex("row", {.strategy = strategy::row_lock}).try_acquire());
  auto const trust = *held->trusted_until();
  CHECK(eventually([&] { return *held->trusted_until() > trust; }));
  CHECK(held->valid());
}

// Maintenance: the database takes no connections for a while, or has another name.
TEST_CASE(
    "C76: postgresql: a call that waits rides out that its database takes no connections, or is renamed") {
  away_fixture f(server_kind::postgresql);
  auto const admin = f.as_admin();
  admin->script("CREATE DATABASE jobs", f.soon());
  auto const elsewhere = std::regex_replace(f.as_app(), std::regex("dbname=\\S+"), "dbname=jobs");
  auto const as_owner = std::regex_replace(f.server.address(), std::regex("dbname=\\S+"), "dbname=jobs");
  REQUIRE(elsewhere != f.as_app());
  migrator(source_from_url(as_owner)).up();
  source_from_url(as_owner).implementation()->connect(f.soon())->script(
      "GRANT ALL ON ALL TABLES IN SCHEMA public TO app", f.soon());
  std::mutex mutex;
  std::string said;
  auto const heard = [&](std::string const& part) {
    std::lock_guard const guard(mutex);
    return said.find(part) != std::string::npos;
  };
  lock_manager m(elsewhere, {.on_event = [&](event const& e) {
                   std::lock_guard const guard(mutex);
                   if (e.kind == event_kind::error) said += e.message;
                 }});
  std::string away;
  std::string back;
  std::string part;
  SUBCASE("no connections") {
    away = "ALTER DATABASE jobs ALLOW_CONNECTIONS false";
    back = "ALTER DATABASE jobs ALLOW_CONNECTIONS true";
    part = "not currently accepting connections";
  }
  SUBCASE("renamed") {
    away = "ALTER DATABASE jobs RENAME TO maintained";
    back = "ALTER DATABASE maintained RENAME TO jobs";
    part = "does not exist";
  }
  taker holder(elsewhere, "", "x", 60s);
  REQUIRE(holder.take(0ms));
  std::atomic<bool> waits{false};
  mutex_options const told{.on_wait = [&](holder_info const*) { waits = true; }};
  auto waiting =
      std::async(std::launch::async, [&] { return bool(m.make_mutex("x", told).try_acquire_for(120s)); });
  REQUIRE(eventually([&] { return waits.load(); }));
  auto const ends_sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'jobs'";
  // Whoever is quick connects anew before the name is gone.
  REQUIRE(eventually([&] {
    try {
      admin->script(ends_sessions, f.soon());
      admin->script(away, f.soon());
      return true;
    } catch (error const&) {
      return false;
    }
  }));
  REQUIRE(eventually([&] {
    if (part.find("accepting") != std::string::npos) admin->script(ends_sessions, f.soon());
    return heard(part);
  }));
  CHECK(waiting.wait_for(0s) == std::future_status::timeout);
  admin->script(back, f.soon());
  CHECK(holder.ask("release").starts_with("released"));
  CHECK(waiting.get());
}

TEST_CASE("C90: postgresql: a role whose transactions are read-only is told of that setting") {
  away_fixture f(server_kind::postgresql);
  f.as_admin()->script("ALTER ROLE app SET default_transaction_read_only = on", f.soon());
  lock_manager m(f.as_app());
  try {
    (void)m.make_mutex("x").try_acquire();
    FAIL("taken");
  } catch (error const& e) {
    CHECK(e.reason() == errc::read_only);
    CHECK(std::string(e.what()).find("default_transaction_read_only") != std::string::npos);
  }
}

TEST_CASE("C90: mariadb: a server that makes all tables with another engine is told so, and is no bug") {
  database_server const server(server_kind::mariadb, {.settings = {"enforce_storage_engine = Aria"}});
  try {
    migrator(source_from_url(server.address())).up();
    FAIL("made");
  } catch (error const& e) {
    CHECK(e.reason() == errc::unsupported);
    CHECK(std::string(e.what()).find("enforce_storage_engine") != std::string::npos);
  }
}

SERVER_CASE("out of connections: told as that within the deadline, and ridden out by those who wait") {
  away_fixture f(Server::kind, {.max_connections = 15});
  lock_manager m(f.as_app());
  auto held = m.make_mutex("held", {.ttl = 15s}).acquire();
  auto row = m.make_mutex("row", {.strategy = strategy::row_lock, .ttl = 9s}).acquire();
  REQUIRE(held);
  std::vector<std::unique_ptr<backend::connection>> hogs;
  auto const hog = [&] {
    auto const source = source_from_url(f.as_app());
    return refused([&] {
      for (;;) hogs.push_back(source.implementation()->connect(f.soon()));
    });
  };
  CHECK(hog() == errc::too_many_connections);
  lock_manager late(f.as_app());
  CHECK(refused([&] { (void)late.make_mutex("x").try_acquire_for(200ms); }) == errc::too_many_connections);
  auto waiting =
      std::async(std::launch::async, [&] { return bool(late.make_mutex("held").try_acquire_for(120s)); });
  // Who has a connection goes on: the lease is renewed.
  auto const trust = *held->trusted_until();
  CHECK(eventually([&] { return *held->trusted_until() > trust; }));
  CHECK(row->release() == release_result::released);
  hogs.clear();
  CHECK(held->release() == release_result::released);
  CHECK(waiting.get());
}

SERVER_CASE("stopped: unlock does not block for long") {
  away_fixture f(Server::kind);
  manager_options o;
  o.reply_timeout = 60s;
  o.release_timeout = 300ms;
  lock_manager m(f.as_app(), o);
  auto x = m.make_mutex("x");
  auto lock = x.acquire();
  REQUIRE(lock);
  f.server.pause();
  auto const start = std::chrono::steady_clock::now();
  CHECK(lock->release() == release_result::in_doubt);
  CHECK(std::chrono::steady_clock::now() - start < 50s);
  f.server.resume();
  lock_manager n(f.as_app());
  CHECK(n.make_mutex("x").try_acquire_for(60s));
}

SERVER_CASE("restarted: sessions that died while they were idle cost neither an attempt nor a release") {
  away_fixture f(Server::kind, {.durable = true});
  manager_options o;
  o.connections = 4;
  o.release_timeout = 20s;
  auto const s = std::make_shared<statement_probe>();
  lock_manager m(observed_by(source_from_url(f.as_app()), s), o);
  std::atomic<int> inside{0};
  s->before = [&](std::string const& statement) {  // all four are in use at once
    if (statement != "lock_take") return;
    ++inside;
    REQUIRE(eventually([&] { return inside >= 4; }));
  };
  int rounds = 0;
  auto const open_all = [&] {
    inside = 0;
    ++rounds;  // other names each time: a crash may forget that they were given back
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {  // what differs in its ttl does not go together
        mutex_options const own{.ttl = 30s + i * 1s};
        CHECK(m.make_mutex(fmt::format("{}/{}", rounds, i), own).try_acquire());
      });
  };
  auto const restart = [&] {
    open_all();
    REQUIRE(s->connections >= 4);
    if (Server::kind != server_kind::postgresql) f.server.kill();  // it would begin a quarantine there
    f.server.restart();
  };
  auto x = m.make_mutex("x");
  restart();
  std::optional<acquisition> lock;
  CHECK_NOTHROW(lock.emplace(x.try_acquire()));
  REQUIRE(lock);
  REQUIRE(*lock);
  restart();
  CHECK_NOTHROW((void)m.list());
  restart();
  CHECK((*lock)->release() == release_result::released);
}
