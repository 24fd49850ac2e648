// Holders that are killed, stopped, forked, and two that look alike.
#include <signal.h>

#include <fstream>

#include "process/taker.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE("R6: the lock of a process that was killed is free after its ttl, with a higher token") {
  taker first(f, "x", 5s);
  taker second(f, "x", 5s);
  auto const a = first.take(0ms);
  REQUIRE(a);
  auto const killed_at = boot_clock::now();
  first.kill();
  CHECK_FALSE(second.take(0ms));
  auto const b = second.take(60s);
  REQUIRE(b);
  CHECK(boot_clock::now() - killed_at < 5s + 30s);  // generous: a loaded machine
  CHECK(b->token > a->token);
}

CONTRACT_CASE(
    "K6: a process that was stopped beyond its lease knows it before it acts, and frees nobody else's lock") {
  taker first(f, "x", 3s);
  taker second(f, "x", 30s);
  REQUIRE(first.take(0ms));
  first.signal(SIGSTOP);
  auto const b = second.take(60s);
  REQUIRE(b);
  first.write_line("look");
  first.signal(SIGCONT);
  std::vector<std::string> const said{first.next_line().value_or(""), first.next_line().value_or("")};
  CAPTURE(said[0]);
  CAPTURE(said[1]);
  CHECK((said[0].starts_with("valid 0") || said[1].starts_with("valid 0")));
  CHECK((said[0].starts_with("lost") || said[1].starts_with("lost")));
  CHECK(first.ask("release") == "released already lost");
  CHECK(second.ask("look") == "valid 1 held");
  stranger other(f);
  CHECK(other.read("x")->term.value == b->term);
}

CONTRACT_CASE("O3: a forked child owns nothing, refuses the parent's manager, and does the parent no harm") {
  taker parent(f, "x", 6s);
  auto const held = parent.take(0ms);
  REQUIRE(held);
  CHECK(parent.ask("fork") == "child forked, already lost, refused, busy status 0");
  CHECK(parent.ask("fork") == "child forked, already lost, refused, busy status 0");
  // The parent's session lives: it renews beyond the ttl, and gives back.
  stranger other(f);
  auto const renewals = other.read("x")->renewals;
  REQUIRE(eventually([&] { return other.read("x")->renewals >= renewals + 4; }));
  CHECK(parent.ask("look") == "valid 1 held");
  CHECK(parent.ask("release") == "released released");
}

CONTRACT_CASE("O1: two processes with one host name and one pid are two owners") {
  taker first(f, "x", 30s, true);
  taker second(f, "x", 30s, true);
  auto const a = first.take(0ms);
  REQUIRE(a);
  CHECK(a->pid == 1);
  CHECK_FALSE(second.take(0ms));
  CHECK(first.ask("release") == "released released");
  auto const b = second.take(0ms);
  REQUIRE(b);
  CHECK(b->pid == 1);
  CHECK(b->host == a->host);
  CHECK(b->process != a->process);
}

CONTRACT_CASE("processes that each add to a number in a file lose nothing") {
  scratch_folder folder;
  auto const file = folder.file("number");
  std::ofstream(file) << 0;
  constexpr int processes = 6;
  constexpr int times = 10;
  std::vector<std::unique_ptr<taker>> all;
  for (int i = 0; i < processes; ++i) all.push_back(std::make_unique<taker>(f, "number", 30s));
  for (auto& t : all) t->write_line("add " + file + " " + std::to_string(times));
  for (auto& t : all) CHECK(t->next_line(120s) == "added");
  long number = 0;
  std::ifstream(file) >> number;
  CHECK(number == processes * times);
}

PAIRS_CASE(
    "D4: a row lock whose holder is stopped for longer than half a minute is free, and its holder is told",
    row_locks) {
  lock_manager m(f.source, f.options);
  // One that goes on is not taken for silent, however long its ttl.
  auto const lasting = m.make_mutex("lasting", {.ttl = 24h}).acquire();
  REQUIRE(lasting);
  child_process stopped({ROWLOCK_LOCK_TAKER, f.url(), f.options.schema, "x", "600000", "row_lock"});
  stopped.write_line("take 0");
  REQUIRE(stopped.next_line().value_or("").starts_with("taken"));
  CHECK_FALSE(m.make_mutex("x").try_acquire());
  stopped.signal(SIGSTOP);
  CHECK(m.make_mutex("x").try_acquire_for(120s));
  stopped.signal(SIGCONT);
  stopped.write_line("release");
  auto said = stopped.next_line().value_or("");
  if (said.starts_with("lost")) said = stopped.next_line().value_or("");  // by a ping that came first
  CHECK(said == "released already lost");
  CHECK(lasting->valid());
}
