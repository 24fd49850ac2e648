#include "base/combining.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

struct job {
  int kind = 0;
  int ran_with = 0;  ///< how many went together
};

/// Threads that call it. Who leads waits until the door is open.
struct scene {
  explicit scene(std::size_t most = 64) : all({.most = most, .enough = 4, .linger = 0ns, .patience = 1h}) {}

  bool run(job& mine, std::stop_token const& stop = {}, boot_time_point until = boot_clock::now() + 100s) {
    return all.run(
        mine, until, stop, [](job const& a, job const& b) { return a.kind == b.kind; },
        [&] {
          ++preparing;
          CHECK(eventually([&] { return open.load(); }));
          if (refuses.exchange(false)) throw std::runtime_error("refused");
          return 0;
        },
        [&](int, auto jobs) {
          for (auto* one : jobs) one->ran_with = static_cast<int>(jobs.size());
          ++runs;
        });
  }
  /// Another thread does, and has come when this returns.
  std::jthread come(job& mine) {
    auto const before = all.waiting() + static_cast<std::size_t>(preparing);
    std::jthread t([&] { run(mine); });
    CHECK(eventually([&] { return all.waiting() + static_cast<std::size_t>(preparing) == before + 1; }));
    return t;
  }

  rowlock::base::combining<job> all;
  std::atomic<bool> open{false};
  std::atomic<bool> refuses{false};
  std::atomic<int> preparing{0};
  std::atomic<int> runs{0};
};

}  // namespace

TEST_CASE("combining: who comes alone goes at once, and alone") {
  scene s;
  s.open = true;
  job mine;
  CHECK(s.run(mine));
  CHECK(mine.ran_with == 1);
}

TEST_CASE(
    "combining: those that come meanwhile go with the one that leads, those that are alike, and so many") {
  scene s(3);
  std::array<job, 8> jobs{};
  for (int i = 5; i < 8; ++i) jobs[static_cast<std::size_t>(i)].kind = 1;
  {
    std::vector<std::jthread> all;
    for (auto& one : jobs) all.push_back(s.come(one));
    s.open = true;
  }
  for (int i = 0; i < 8; ++i) CHECK(jobs[static_cast<std::size_t>(i)].ran_with == (i == 3 || i == 4 ? 2 : 3));
  CHECK(s.runs == 3);
}

TEST_CASE("combining: who can't prepare hears it, and the next one leads") {
  scene s;
  job refused;
  job next;
  s.refuses = true;
  {
    std::jthread const first([&] { CHECK_THROWS_AS(s.run(refused), std::runtime_error); });
    REQUIRE(eventually([&] { return s.preparing == 1; }));
    auto const second = s.come(next);
    s.open = true;
  }
  CHECK(refused.ran_with == 0);
  CHECK(next.ran_with == 1);
}

TEST_CASE("combining: who is stopped, or has no more time, before anybody began with it leaves the line") {
  scene s;
  job first;
  job stopped;
  job late;
  job next;
  std::stop_source stop;
  std::atomic<bool> was_run{true};
  {
    auto const leads = s.come(first);
    std::jthread second([&] { was_run = s.run(stopped, stop.get_token()); });
    REQUIRE(eventually([&] { return s.all.waiting() == 1; }));
    auto const third = s.come(next);
    CHECK_FALSE(s.run(late, {}, boot_clock::now() + 1ms));
    stop.request_stop();
    second.join();
    CHECK(s.all.waiting() == 1);
    s.open = true;
  }
  CHECK_FALSE(was_run);
  CHECK(stopped.ran_with == 0);
  CHECK(late.ran_with == 0);
  CHECK(next.ran_with == 2);
}

TEST_CASE("combining: while enough are under way, who comes waits, and they go together") {
  rowlock::base::combining<job> all({.most = 64, .enough = 2, .linger = 0ns, .patience = 1h});
  std::atomic<int> running{0};
  std::atomic<bool> open{false};
  std::array<job, 6> jobs{};
  {
    std::vector<std::jthread> threads;
    auto const come = [&](job& mine) {
      threads.emplace_back([&] {
        all.run(
            mine, boot_clock::now() + 100s, {}, [](job const&, job const&) { return true; }, [] { return 0; },
            [&](int, auto together) {
              ++running;
              CHECK(eventually([&] { return open.load(); }));
              for (auto* one : together) one->ran_with = static_cast<int>(together.size());
            });
      });
    };
    come(jobs[0]);
    REQUIRE(eventually([&] { return running == 1; }));
    come(jobs[1]);
    REQUIRE(eventually([&] { return running == 2; }));
    for (std::size_t i = 2; i < jobs.size(); ++i) {
      come(jobs[i]);
      REQUIRE(eventually([&] { return all.waiting() == i - 1; }));
    }
    CHECK(running == 2);
    open = true;
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) CHECK(jobs[i].ran_with == (i < 2 ? 1 : 4));
}

namespace {

/// Runs of threads that lead when `open`, and wait for company for `linger`.
struct companions {
  explicit companions(std::chrono::nanoseconds linger)
      : all({.most = 64, .enough = 4, .linger = linger, .patience = 1h}) {}

  void come(job& mine) {
    threads.emplace_back([&] {
      all.run(
          mine, boot_clock::now() + 100s, {}, [](job const&, job const&) { return true; },
          [&] {
            ++preparing;
            CHECK(eventually([&] { return open.load(); }));
            return 0;
          },
          [](int, auto together) {
            for (auto* one : together) one->ran_with = static_cast<int>(together.size());
          });
    });
  }
  /// One leads, and these come meanwhile.
  void come_together(std::span<job> jobs) {
    open = false;
    auto const before = preparing.load();
    come(jobs[0]);
    REQUIRE(eventually([&] { return preparing == before + 1; }));
    for (std::size_t i = 1; i < jobs.size(); ++i) {
      come(jobs[i]);
      REQUIRE(eventually([&] { return all.waiting() == i; }));
    }
    open = true;
    threads.clear();
  }

  rowlock::base::combining<job> all;
  std::atomic<bool> open{false};
  std::atomic<int> preparing{0};
  std::vector<std::jthread> threads;
};

}  // namespace

TEST_CASE("combining: after a large run who leads waits for three of four of them, and not for all") {
  companions c(1h);
  std::array<job, 4> first{};
  c.come_together(first);
  for (auto const& one : first) CHECK(one.ran_with == 4);
  std::array<job, 3> next{};
  c.open = true;
  c.come(next[0]);
  c.come(next[1]);
  REQUIRE(eventually([&] { return c.all.waiting() == 1; }));
  CHECK(c.preparing == 1);
  c.come(next[2]);
  c.threads.clear();
  for (auto const& one : next) CHECK(one.ran_with == 3);
}

TEST_CASE("combining: after a small run, or if nobody comes, who leads goes alone") {
  companions patient(1h);
  std::array<job, 2> two{};
  patient.come_together(two);
  CHECK(two[0].ran_with == 2);
  job alone;
  patient.come(alone);
  patient.threads.clear();
  CHECK(alone.ran_with == 1);
  companions quick(1ns);
  std::array<job, 4> four{};
  quick.come_together(four);
  job second;
  quick.come(second);
  quick.threads.clear();
  CHECK(second.ran_with == 1);
}

TEST_CASE("combining: a run that does not end keeps the others for a moment only") {
  rowlock::base::combining<job> all({.most = 64, .enough = 1, .patience = 1ms});
  std::atomic<bool> running{false};
  std::atomic<bool> open{false};
  job hangs;
  job next;
  std::jthread const first([&] {
    all.run(
        hangs, boot_clock::now() + 100s, {}, [](job const&, job const&) { return true; }, [] { return 0; },
        [&](int, auto) {
          running = true;
          CHECK(eventually([&] { return open.load(); }));
        });
  });
  REQUIRE(eventually([&] { return running.load(); }));
  CHECK(all.run(
      next, boot_clock::now() + 100s, {}, [](job const&, job const&) { return true; }, [] { return 0; },
      [&](int, auto jobs) { next.ran_with = static_cast<int>(jobs.size()); }));
  CHECK(next.ran_with == 1);
  CHECK_FALSE(open);
  open = true;
}

TEST_CASE("combining: many threads, each is served once a call") {
  rowlock::base::combining<job> all({.most = 8, .enough = 4});
  std::atomic<int> served{0};
  std::atomic<int> trips{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) {
          job mine;
          all.run(
              mine, boot_clock::now() + 100s, {}, [](job const&, job const&) { return true; },
              [] { return 0; },
              [&](int, auto jobs) {
                ++trips;
                for (auto* one : jobs) {
                  ++one->ran_with;
                  ++served;
                }
              });
          CHECK(mine.ran_with == 1);
        }
      });
  }
  CHECK(served == 16 * 500);
  CHECK(trips <= served);
}
