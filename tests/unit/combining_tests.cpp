#include "base/combining.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

struct job {
  int kind = 0;
  int ran_with = 0;  ///< how many went together
};

using line = base::combining<job, int>;

/// Callers, and a thread for their jobs that goes through two doors: one before it looks who is there, one
/// before it does their jobs.
struct scene {
  explicit scene(line::limits const& l)
      : all(
            l, "jobs", [](job const& a, job const& b) noexcept { return a.kind == b.kind; },
            [this] {
              ++preparing;
              CHECK(eventually([&] { return may_prepare.load(); }));
              if (refuses.exchange(false)) throw std::runtime_error("refused");
              return 0;
            },
            [this](int&, std::span<job* const> jobs) {
              ++runs;
              CHECK(eventually([&] { return may_run.load(); }));
              for (auto* one : jobs) one->ran_with += static_cast<int>(jobs.size());
            }) {}

  bool join(job& mine, std::stop_token const& stop = {}, boot_time_point until = boot_clock::now() + 100s) {
    return all.join(mine, until, stop).served();
  }
  /// Another thread does, and is in the line when this returns.
  std::jthread come(job& mine) {
    auto const before = all.waiting();
    std::jthread t([&] { CHECK(join(mine)); });
    CHECK(eventually([&] { return all.waiting() == before + 1; }));
    return t;
  }
  void come_all(std::span<job> jobs) {
    for (auto& one : jobs) threads.push_back(come(one));
  }
  /// All of these, in one run.
  void go_together(std::span<job> jobs) {
    may_prepare = false;
    come_all(jobs);
    may_prepare = true;
    threads.clear();
  }

  std::atomic<bool> may_prepare{true};
  std::atomic<bool> may_run{true};
  std::atomic<bool> refuses{false};
  std::atomic<int> preparing{0};
  std::atomic<int> runs{0};
  line all;
  std::vector<std::jthread> threads;
};

line::limits together(std::size_t most = 64) {
  return {.most = most, .alone = 0, .linger = 0ns, .patience = 1h};
}

}  // namespace

TEST_CASE("combining: few callers go alone, and more are left to the thread") {
  scene s({.most = 64, .alone = 2, .linger = 0ns, .patience = 1h});
  job mine;
  {
    auto const first = s.all.join(mine, boot_clock::now() + 100s, {});
    CHECK_FALSE(first.served());
    auto second = s.all.join(mine, boot_clock::now() + 100s, {});
    CHECK_FALSE(second.served());
    auto const still_there = std::move(second);
    CHECK(s.join(mine));
    CHECK(mine.ran_with == 1);
  }
  CHECK(eventually([&] { return !s.join(mine); }));
  auto const runs = s.runs.load();
  CHECK_FALSE(s.join(mine));
  CHECK(s.runs == runs);
}

TEST_CASE("combining: those that come meanwhile go together, those that are alike, and so many, in order") {
  scene s(together(3));
  std::array<job, 8> jobs{};
  for (std::size_t i = 5; i < 8; ++i) jobs[i].kind = 1;
  s.go_together(jobs);
  for (std::size_t i = 0; i < 8; ++i) CHECK(jobs[i].ran_with == (i == 3 || i == 4 ? 2 : 3));
  CHECK(s.runs == 3);
}

TEST_CASE("combining: without a session each goes alone, and the next ones are served") {
  scene s(together());
  s.refuses = true;
  s.may_prepare = false;
  std::array<job, 2> jobs{};
  std::atomic<int> alone{0};
  {
    std::vector<std::jthread> threads;
    for (auto& one : jobs)
      threads.emplace_back([&s, &alone, &one] {
        if (!s.join(one)) ++alone;
      });
    CHECK(eventually([&] { return s.all.waiting() == 2; }));
    s.may_prepare = true;
  }
  CHECK(alone == 2);
  job next;
  CHECK(s.join(next));
  CHECK(next.ran_with == 1);
}

TEST_CASE("combining: who is stopped, or has no more time, before the thread began with it leaves the line") {
  scene s(together());
  s.may_prepare = false;
  job first;
  job stopped;
  job late;
  job next;
  std::stop_source stop;
  {
    auto const a = s.come(first);
    std::jthread b([&] { CHECK_FALSE(s.join(stopped, stop.get_token())); });
    REQUIRE(eventually([&] { return s.all.waiting() == 2; }));
    auto const c = s.come(next);
    CHECK_FALSE(s.join(late, {}, boot_clock::now() + 1ms));
    stop.request_stop();
    b.join();
    CHECK(s.all.waiting() == 2);
    s.may_prepare = true;
  }
  CHECK(stopped.ran_with == 0);
  CHECK(late.ran_with == 0);
  CHECK(first.ran_with == 2);
  CHECK(next.ran_with == 2);
}

TEST_CASE(
    "combining: who is stopped, or has no more time, after the thread began with it waits for its end") {
  scene s(together());
  s.may_run = false;
  job stopped;
  job late;
  std::stop_source stop;
  std::atomic<int> ended{0};
  {
    s.may_prepare = false;
    std::jthread const a([&] {
      CHECK(s.join(stopped, stop.get_token()));
      ++ended;
    });
    std::jthread const b([&] {
      CHECK(s.join(late, {}, boot_clock::now() + 200ms));
      ++ended;
    });
    REQUIRE(eventually([&] { return s.all.waiting() == 2; }));
    s.may_prepare = true;
    REQUIRE(eventually([&] { return s.runs == 1; }));
    stop.request_stop();
    std::this_thread::sleep_for(250ms);
    CHECK(ended == 0);
    s.may_run = true;
  }
  CHECK(stopped.ran_with == 2);
  CHECK(late.ran_with == 2);
}

TEST_CASE("combining: after a large run the thread waits for three of four of them, and not for all") {
  scene s({.most = 64, .alone = 0, .linger = 1h, .patience = 1h});
  std::array<job, 4> first{};
  s.go_together(first);
  for (auto const& one : first) CHECK(one.ran_with == 4);
  std::array<job, 3> next{};
  auto const preparing = s.preparing.load();
  s.come_all(std::span(next).first(2));
  CHECK(s.preparing == preparing);
  s.threads.emplace_back([&] { CHECK(s.join(next[2])); });
  s.threads.clear();
  for (auto const& one : next) CHECK(one.ran_with == 3);
  s.all.stop({});
}

TEST_CASE("combining: while the thread expects its callers back, nobody goes alone; then it has time") {
  scene s({.most = 64, .alone = 2, .linger = 1h, .patience = 1h});
  job alone;
  job busy;
  auto const first = s.all.join(alone, boot_clock::now() + 100s, {});
  {
    auto const second = s.all.join(alone, boot_clock::now() + 100s, {});
    std::array<job, 4> four{};
    s.go_together(four);
  }
  std::array<job, 3> next{};
  s.come_all(std::span(next).first(2));
  s.threads.emplace_back([&] { CHECK(s.join(next[2])); });
  s.threads.clear();
  for (auto const& one : next) CHECK(one.ran_with == 3);
  scene quick({.most = 64, .alone = 1, .linger = 1ns, .patience = 1h});
  {
    auto const one = quick.all.join(alone, boot_clock::now() + 100s, {});
    std::array<job, 4> four{};
    quick.go_together(four);
  }
  CHECK(eventually([&] { return !quick.join(busy); }));
}

// With so little patience a caller can leave before the thread has come: then it comes again.
TEST_CASE("combining: a run that does not end keeps the others for a moment only") {
  scene s({.most = 64, .alone = 0, .patience = 1ms});
  s.may_run = false;
  job hangs;
  job next;
  std::jthread const first([&] {
    while (!s.join(hangs)) continue;
  });
  REQUIRE(eventually([&] { return s.runs == 1; }));
  CHECK_FALSE(s.join(next));
  CHECK(next.ran_with == 0);
  s.may_run = true;
}

TEST_CASE("combining: who waits for the thread's session is patient") {
  scene s({.most = 64, .alone = 0, .patience = 1ms});
  s.may_prepare = false;
  job mine;
  std::atomic<int> left{0};
  std::jthread const first([&] {
    while (!s.join(mine)) ++left;
  });
  REQUIRE(eventually([&] { return s.preparing == 1 && s.all.waiting() == 1; }));
  auto const before = left.load();
  std::this_thread::sleep_for(50ms);
  CHECK(left == before);
  CHECK(s.all.waiting() == 1);
  s.may_prepare = true;
}

TEST_CASE("combining: at the end those in the line go alone, and each that comes later") {
  scene s(together());
  s.may_run = false;
  job first;
  job second;
  {
    std::jthread const a([&] { CHECK(s.join(first)); });
    REQUIRE(eventually([&] { return s.runs == 1; }));
    std::jthread const b([&] { CHECK_FALSE(s.join(second)); });
    REQUIRE(eventually([&] { return s.all.waiting() == 1; }));
    std::atomic<int> thread{0};
    std::jthread const c([&] {
      thread = ::gettid();
      s.all.stop({});
    });
    REQUIRE(comes_to_rest(thread));
    s.may_run = true;
  }
  CHECK_FALSE(s.join(second));
  CHECK(second.ran_with == 0);
}

TEST_CASE("combining: many threads, each is served once a call") {
  std::atomic<int> served{0};
  std::atomic<int> trips{0};
  line all(
      {.most = 8, .alone = 2}, "jobs", [](job const&, job const&) noexcept { return true; }, [] { return 0; },
      [&](int&, std::span<job* const> jobs) {
        ++trips;
        for (auto* one : jobs) {
          ++one->ran_with;
          ++served;
        }
      });
  std::atomic<int> alone{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 16; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          job mine;
          std::stop_source stop;
          if (i % 7 == t % 7) stop.request_stop();
          bool const was = all.join(mine, boot_clock::now() + 100s, stop.get_token()).served();
          if (!was) ++alone;
          CHECK(mine.ran_with == (was ? 1 : 0));
        }
      });
  }
  CHECK(served + alone == 16 * 500);
  CHECK(trips <= served);
}
