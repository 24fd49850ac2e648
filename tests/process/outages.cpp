// The database away: stopped, killed, restarted. A server of the test's own each time.
#include <fmt/format.h>

#include <rowlock/postgresql.hpp>
#include <rowlock/rowlock.hpp>
#include <thread>

#include "process/taker.hpp"
#include "support/database_server.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct away_fixture {
  explicit away_fixture(database_server::options o = {}, server_kind kind = server_kind::postgresql)
      : server(kind, o) {
    migrator(source_from_url(server.address())).up();
  }
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

template <server_kind Kind>
struct on_server {
  static constexpr server_kind kind = Kind;
};
using on_postgresql = on_server<server_kind::postgresql>;
using on_mariadb = on_server<server_kind::mariadb>;
using on_mysql = on_server<server_kind::mysql>;

#define SERVER_CASE(text) TEST_CASE_TEMPLATE(text ": lease on", Server, on_postgresql, on_mariadb, on_mysql)

}  // namespace

TYPE_TO_STRING_AS("postgresql", on_postgresql);
TYPE_TO_STRING_AS("mariadb", on_mariadb);
TYPE_TO_STRING_AS("mysql", on_mysql);

TEST_CASE(
    "the server stopped for 5 s within a ttl of 30 s: no lease is lost and waiters go on: lease on "
    "postgresql") {
  away_fixture f({.max_connections = 50 + 4 * crowd_size()});
  crowd all(f.server.address(), crowd_size(), 30s);
  f.server.pause();
  std::this_thread::sleep_for(5s);  // what is to be lived through
  f.server.resume();
  all.check();
}

TEST_CASE(
    "the server killed and restarted within the ttl: no lease is lost and waiters go on: lease on "
    "postgresql") {
  away_fixture f({.durable = true, .max_connections = 50 + 4 * crowd_size()});
  crowd all(f.server.address(), crowd_size(), 30s);
  f.server.kill();
  f.server.restart();
  all.check();
}

TEST_CASE(
    "the server away for longer than the ttl: loss is reported before trust ends: lease on postgresql") {
  away_fixture f;
  taker holder(f.server.address(), "", "x", 3s);
  REQUIRE(holder.take(0ms));
  SUBCASE("stopped") { f.server.pause(); }
  SUBCASE("killed") { f.server.kill(); }
  auto const said = holder.next_line().value_or("nothing");
  CAPTURE(said);
  REQUIRE(said.starts_with("lost database unreachable "));
  CHECK(std::stol(said.substr(std::string("lost database unreachable ").size())) > 0);
}

TEST_CASE(
    "a try while the server is stopped ends within the reply timeout, and a later one succeeds: lease on "
    "postgresql") {
  away_fixture f;
  manager_options o;
  o.reply_timeout = 500ms;
  lock_manager m(f.server.address(), o);
  auto x = m.make_mutex("x");
  { auto const lock = x.acquire(); }
  f.server.pause();
  auto const start = std::chrono::steady_clock::now();
  CHECK_THROWS_AS((void)x.try_acquire(), error);
  CHECK_THROWS_AS((void)x.try_acquire_for(100ms), error);
  CHECK(std::chrono::steady_clock::now() - start < 20s);
  f.server.resume();
  CHECK(x.try_acquire_for(60s));
}

SERVER_CASE("unlock does not block for long when the server is stopped") {
  away_fixture f({}, Server::kind);
  manager_options o;
  o.reply_timeout = 60s;
  o.release_timeout = 300ms;
  lock_manager m(f.server.address(), o);
  auto x = m.make_mutex("x");
  auto lock = x.acquire();
  REQUIRE(lock);
  f.server.pause();
  auto const start = std::chrono::steady_clock::now();
  CHECK(lock->release() == release_result::in_doubt);
  CHECK(std::chrono::steady_clock::now() - start < 30s);
  f.server.resume();
  lock_manager n(f.server.address());
  CHECK(n.make_mutex("x").try_acquire_for(60s));
}

TEST_CASE(
    "sessions that died while they were idle cost neither an attempt nor a release: lease on postgresql") {
  away_fixture f({.durable = true});
  manager_options o;
  o.connections = 4;
  auto const s = std::make_shared<seam>();
  lock_manager m(observed_by(postgresql::source(f.server.address()), s), o);
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
      threads.emplace_back([&, i] { CHECK(m.make_mutex(fmt::format("{}/{}", rounds, i)).try_acquire()); });
  };
  auto const restart = [&] {
    open_all();
    REQUIRE(s->connections >= 4);
    f.server.kill();
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
