// Fencing tokens rise for ever.
#include <algorithm>
#include <thread>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("tokens of a name rise over a thousand takes") {
  auto const m = f.manager();
  std::int64_t last = 0;
  for (int i = 0; i < 1000; ++i) {
    auto const token = take_once(*m);
    REQUIRE(token > last);
    last = token;
  }
}

CONTRACT_CASE("a token is never below the clock, so that a row deleted by hand has the clock to go on") {
  auto const m = f.manager();
  auto const now = std::chrono::duration_cast<std::chrono::microseconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  CHECK(take_once(*m) > now - 60'000'000);
}

LEASE_CASE("the clock set back does not lower a token") {
  auto const m = f.manager();
  take_once(*m);
  f.sql("UPDATE rowlock_locks SET token = token + 7200000000");  // as if the clock had been two hours ahead
  stranger other(f);
  auto const ahead = other.token("x");
  CHECK(take_once(*m) == ahead + 1);
}

LEASE_CASE("P3, B5: an idle row that was reaped leaves the floor, and the next token is above it") {
  auto const m = f.manager();
  take_once(*m);
  f.sql("UPDATE rowlock_locks SET token = token + 7200000000");
  stranger other(f);
  auto const last = other.token("x");
  // As the reaper will: the floor durably first, then the row by the token that was read.
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(last));
  f.sql("DELETE FROM rowlock_locks WHERE name = 'x' AND term IS NULL AND token = " + std::to_string(last));
  CHECK(take_once(*m) == last + 1);
  CHECK(take_once(*m, "y") == last + 1);  // any fresh row
}

LEASE_CASE("a name that had another strategy before goes on above its last token") {
  auto const m = f.manager();
  f.sql("INSERT INTO rowlock_tokens (name, token) VALUES ('x', 4000000000000000)");
  CHECK(take_once(*m) == 4000000000000001);
  CHECK(take_once(*m, "y") < 4000000000000001);
}

LEASE_CASE(
    "B4: a token of a fresh row is drawn by the take, above a floor that was raised after the row was put "
    "there") {
  auto const m = f.manager();
  m->connect();
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_insert_free") f.sql("UPDATE rowlock_meta SET token_floor = 5000000000000000");
  };
  CHECK(take_once(*m) == 5000000000000001);
}

CONTRACT_CASE("B2: contended tokens rise in the order of the terms") {
  std::mutex guard;
  std::vector<std::int64_t> order;
  {
    std::vector<std::unique_ptr<stranger>> owners;
    for (int i = 0; i < 4; ++i) owners.push_back(std::make_unique<stranger>(f, std::to_string(i)));
    std::vector<std::jthread> threads;
    for (auto& owner : owners)
      threads.emplace_back([&] {
        for (int done = 0; done < 50;) {
          if (!owner->take("x")) continue;
          {
            std::lock_guard const hold(guard);  // nobody else is here while the lock is ours
            order.push_back(owner->token("x"));
          }
          owner->release("x");
          ++done;
        }
      });
  }
  CHECK(order.size() == 200);
  CHECK(std::is_sorted(order.begin(), order.end()));
  CHECK(std::adjacent_find(order.begin(), order.end()) == order.end());
}

CONTRACT_CASE("fencing switched off draws no token, and a later one rises all the same") {
  auto const m = f.manager();
  auto const first = take_once(*m);
  {
    auto const lock = m->make_mutex("x", {.fencing = false}).acquire();
    CHECK_FALSE(lock->token());
  }
  CHECK(take_once(*m) > first);
}

INSERT_CASE("the clock set back does not lower a token of unique_insert") {
  auto const m = f.manager();
  auto const before = take_once(*m);
  f.sql("UPDATE rowlock_tokens SET token = token + 7200000000");  // as if the clock had been two hours ahead
  CHECK(take_once(*m) == before + 7200000001);
}

INSERT_CASE("P3, B5: a token's row that was reaped leaves the floor, and the next token is above it") {
  auto const m = f.manager();
  auto const last = take_once(*m) + 7200000000;
  f.sql("UPDATE rowlock_tokens SET token = " + std::to_string(last));
  f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(last));
  f.sql("DELETE FROM rowlock_tokens");
  CHECK(take_once(*m) == last + 1);
  CHECK(take_once(*m, "y") == last + 1);  // any fresh row
}

// The name's row in rowlock_tokens may be old: in between, a lease drew tokens of its own, and its row was
// reaped.
INSERT_CASE("tokens rise over a change of strategy and back") {
  auto const m = f.manager();
  auto last = take_once(*m);
  auto const take_lease = [&] {
    return m->make_mutex("x", {.strategy = strategy::lease}).acquire()->token().value;
  };
  for (int i = 0; i < 3; ++i) {
    auto const leased = take_lease();
    CHECK(leased > last);
    last = leased + 7200000000;
    f.sql("UPDATE rowlock_locks SET token = " + std::to_string(last));
    // As the reaper does it.
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string(last));
    f.sql("DELETE FROM rowlock_locks WHERE term IS NULL AND token <= (SELECT token_floor FROM rowlock_meta)");
    auto const inserted = take_once(*m);
    CHECK(inserted > last);
    last = inserted;
  }
}

// B39: the token's row is reaped, and the floor raised, between the INSERT of the lock and the draw.
INSERT_CASE(
    "B39: a floor that was raised while the lock was being taken is above nothing that is drawn later") {
  std::atomic<bool> done{pair.engine == dialect::sqlite};  // one writer: nothing comes in between
  auto const m = f.manager();
  take_once(*m);
  f.probe->before = [&](std::string const& s) {
    if (s != "token_draw" || done.exchange(true)) return;
    f.sql("UPDATE rowlock_meta SET token_floor = 5000000000000000");
    f.sql("DELETE FROM rowlock_tokens");
  };
  auto const token = take_once(*m);
  CHECK(done);
  CHECK((pair.engine == dialect::sqlite || token == 5000000000000001));
}
