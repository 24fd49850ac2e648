// Tokens of one name rise through everything that may happen to a database.
#include <cstdlib>
#include <rowlock/postgresql.hpp>

#include "migrate/toy.hpp"
#include "process/taker.hpp"
#include "support/database_server.hpp"
#include "support/look_at_tables.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// After the server was killed, or its clock set back, leases are granted when the longest could be over: the
/// reaper's.
constexpr auto quarantine_over = 60s + 1s + 60s;

/// Takes and gives back; checks that the token rose.
class rising {
 public:
  explicit rising(std::function<std::unique_ptr<lock_manager>()> connect) : connect_(std::move(connect)) {}
  void take(int times) {
    auto const m = connect_();
    auto x = m->make_mutex("x");
    for (int i = 0; i < times; ++i) {
      auto const lock = x.try_acquire_for(quarantine_over);
      REQUIRE(lock);
      REQUIRE(lock->token() > last_);
      last_ = lock->token();
    }
  }

 private:
  std::function<std::unique_ptr<lock_manager>()> connect_;
  fencing_token last_;
};

void reap_by_hand(connection_source const& source) {
  auto session = source.implementation()->connect(boot_clock::now() + 60s);
  look_at_tables(*session);
  session->script(
      "UPDATE rowlock_meta SET token_floor = (SELECT max(t) FROM (SELECT token_floor AS t FROM rowlock_meta "
      "UNION "
      "SELECT max(token) FROM rowlock_locks) AS all_tokens)",
      boot_clock::now() + 60s);
  session->script("DELETE FROM rowlock_locks WHERE term IS NULL", boot_clock::now() + 60s);
}

/// Takes with one strategy after the other, each as often as it is told to.
class rising_with_each {
 public:
  explicit rising_with_each(std::string url) : url_(std::move(url)) {}
  void take(strategy how, int times) {
    CAPTURE(to_string(how));
    manager_options o;
    o.strategy = how;
    lock_manager m(url_, o);
    auto x = m.make_mutex("x", {.fencing = true});
    for (int i = 0; i < times; ++i) {
      auto const lock = x.try_acquire_for(quarantine_over);
      REQUIRE(lock);
      REQUIRE(lock->token() > last_);
      last_ = lock->token();
    }
  }

 private:
  std::string url_;
  fencing_token last_;
};

void reap_all(connection_source const& source) {
  auto const done = reaper(source, {.idle = 0ms}).run();
  REQUIRE(done.end == reap_end::finished);
}

void up_and_down(connection_source const& source) {
  migrator m(with_toy(source));
  m.up();
  m.down(m.latest() - 1);
}

}  // namespace

TEST_CASE(
    "B3: tokens rise over takes, reaping, migration, kill -9 of the server and a clock set back an hour: "
    "lease "
    "on postgresql") {
  database_server server(server_kind::postgresql, {.durable = true, .movable_clock = true});
  postgresql::source const source(server.address());
  migrator(source).up();
  rising tokens([&] { return std::make_unique<lock_manager>(server.address()); });
  tokens.take(1000);
  reap_by_hand(source);
  tokens.take(1);
  reap_all(source);
  tokens.take(1);
  up_and_down(source);
  tokens.take(1);
  server.kill();
  server.restart();
  tokens.take(1);
  server.set_clock(-3600s);
  tokens.take(2);
  reap_by_hand(source);
  tokens.take(1);
  reap_all(source);
  tokens.take(1);
  up_and_down(source);
  server.kill();
  server.restart();
  tokens.take(300);
}

TEST_CASE("tokens rise over takes, reaping and migration: lease on sqlite") {
  sqlite_fixture f;
  rising tokens([&] { return std::make_unique<lock_manager>(f.url()); });
  tokens.take(1000);
  reap_by_hand(f.source);
  tokens.take(1);
  reap_all(f.source);
  tokens.take(1);
  up_and_down(f.source);
  tokens.take(300);
}

// A name that goes from one strategy to another once its row was reaped, before and after a crash and a step
// of the clock.
TEST_CASE_TEMPLATE(
    "B3: tokens rise over strategies, takes, reaping, kill -9 of the server and a clock set back an hour",
    kind, std::integral_constant<server_kind, server_kind::postgresql>,
    std::integral_constant<server_kind, server_kind::mariadb>,
    std::integral_constant<server_kind, server_kind::mysql>) {
  database_server server(kind::value, {.durable = true, .movable_clock = true});
  auto const source = source_from_url(server.address());
  migrator(source).up();
  // ROWLOCK_TEST_TAKES=1000 for more of them: with a token, a row_lock connects for each.
  auto const* more = std::getenv("ROWLOCK_TEST_TAKES");
  int const takes = more == nullptr ? 200 : std::atoi(more);
  rising_with_each tokens(server.address());
  for (auto how : {strategy::row_lock, strategy::unique_insert, strategy::lease}) {
    tokens.take(how, takes);
    reap_all(source);
  }
  tokens.take(strategy::lease, 1);
  server.kill();
  server.restart();
  tokens.take(strategy::lease, 10);
  server.set_clock(-3600s);
  tokens.take(strategy::lease, 10);
  reap_all(source);
  tokens.take(strategy::unique_insert, 10);
  reap_all(source);
  tokens.take(strategy::row_lock, 10);
  server.kill();
  server.restart();
  tokens.take(strategy::row_lock, 100);
}

TEST_CASE("tokens rise over strategies, takes and reaping: sqlite") {
  sqlite_fixture f;
  rising_with_each tokens(f.url());
  for (int round = 0; round < 3; ++round)
    for (auto how : {strategy::unique_insert, strategy::lease}) {
      tokens.take(how, 300);
      reap_all(f.source);
    }
}
