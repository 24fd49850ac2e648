// What class metrics counts is what was done.
#include <thread>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// What the managers of the fixture have counted.
class counted {
 public:
  explicit counted(fixture& f) { f.options.on_event = metrics_.observer(); }
  int now(std::string const& series) const {
    return static_cast<int>(metric_in(metrics_.prometheus(), "rowlock_" + series));
  }
  bool comes_to(std::string const& series, int n) const {
    return eventually([&] { return now(series) >= n; }) && now(series) == n;
  }
  double seconds(std::string const& histogram) const {
    return metric_in(metrics_.prometheus(), "rowlock_" + histogram + "_duration_seconds_sum");
  }

 private:
  metrics metrics_;
};

}  // namespace

EVERY_CASE("metrics: locks taken and given back, and how long that took") {
  counted const counts(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  for (int i = 0; i < 3; ++i) REQUIRE(x.acquire()->release() == release_result::released);
  CHECK(counts.now("acquisitions_total") == 3);
  CHECK(counts.now("acquire_duration_seconds_count") == 3);
  CHECK(counts.now("releases_total") == 3);
  CHECK(counts.now("release_duration_seconds_count") == 3);
  CHECK(counts.seconds("acquire") > 0);
  CHECK(counts.seconds("release") > 0);
  CHECK(counts.now("waits_total{outcome=\"taken\"}") == 0);
  CHECK(counts.now("errors_total") == 0);
}

EVERY_CASE("metrics: a recursive mutex counts once until it is given back") {
  counted const counts(f);
  auto const m = f.manager();
  auto x = m->make_recursive_mutex("x");
  x.lock();
  x.lock();
  x.unlock();
  CHECK(counts.now("releases_total") == 0);
  x.unlock();
  CHECK(counts.now("acquisitions_total") == 1);
  CHECK(counts.now("releases_total") == 1);
}

EVERY_CASE("metrics: who is refused at once neither waited nor took") {
  counted const counts(f);
  stranger other(f);
  auto const m = f.manager();
  REQUIRE(other.take("x"));
  CHECK_FALSE(m->make_mutex("x").try_acquire());
  CHECK(counts.now("acquisitions_total") == 0);
  CHECK(counts.now("waits_total{outcome=\"given up\"}") == 0);
}

EVERY_CASE("C88: metrics: a call that ends without the lock is counted by the program's label") {
  counted const counts(f);
  auto const m = f.manager();
  auto const others = f.manager();
  mutex_options const labelled{.owner = each_acquire{}, .label = "billing"};
  auto const held = others->make_mutex("x", labelled).try_acquire();
  REQUIRE(held);
  for (int i = 0; i < 10; ++i) CHECK_FALSE(m->make_mutex("x", labelled).try_acquire());
  CHECK_FALSE(m->make_mutex("x", {.owner = each_acquire{}}).try_acquire_for(50ms));
  CHECK(counts.now("refusals_total{label=\"billing\",outcome=\"busy\"}") == 10);
  CHECK(counts.now("refusals_total{label=\"\",outcome=\"timed out\"}") == 1);
}

CONTRACT_CASE("C88: metrics: a lock is held from its take to its end, whatever that is") {
  counted const counts(f);
  stranger other(f);
  mutex_options const labelled{.owner = each_acquire{}, .label = "billing"};
  auto const held = "locks_held{label=\"billing\"}";
  {
    auto m = f.manager();
    auto released = m->make_mutex("released", labelled).acquire();
    auto lost = m->make_mutex("lost", labelled).acquire();
    auto detached = m->make_mutex("detached", labelled).acquire();
    auto late = m->make_mutex("late", labelled).acquire();
    CHECK(counts.now(held) == 4);
    CHECK(released->release() == release_result::released);
    CHECK(counts.now(held) == 3);
    REQUIRE(other.take_over("lost"));
    CHECK(lost->release() == release_result::already_lost);
    CHECK(counts.now(held) == 2);
    REQUIRE(detached->detach());
    CHECK(counts.now(held) == 1);
    m.reset();
    CHECK(counts.now(held) == 0);
  }
  CHECK(counts.now("locks_held{label=\"\"}") == 0);
}

CONTRACT_CASE("metrics: waiting that was worth it, and in vain") {
  counted const counts(f);
  stranger other(f);
  auto const m = f.manager();
  m->connect();
  auto x = m->make_mutex("x", {.retry = {.longest = 50ms}});
  REQUIRE(other.take("x"));
  CHECK_FALSE(x.try_acquire_for(600ms));
  CHECK(counts.now("waits_total{outcome=\"given up\"}") == 1);
  CHECK(counts.now("acquisitions_total") == 0);
  f.probe->reset();
  auto const began = boot_clock::now();
  std::jthread const frees([&] {
    CHECK(eventually([&] { return f.waited(3); }));
    std::this_thread::sleep_for(20ms);  // what is to be measured
    CHECK(other.release("x"));
  });
  auto const lock = x.acquire();
  auto const took = std::chrono::duration<double>(boot_clock::now() - began).count();
  REQUIRE(lock);
  CHECK(counts.now("waits_total{outcome=\"taken\"}") == 1);
  CHECK(counts.now("waits_total{outcome=\"given up\"}") == 1);
  CHECK(counts.now("acquisitions_total") == 1);
  CHECK(counts.seconds("acquire") <= took);
  CHECK(counts.seconds("acquire") >= 0.02);
}

CONTRACT_CASE("metrics: renewals, one for each lock") {
  counted const counts(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 6s});
  auto y = m->make_mutex("y", {.ttl = 6s});
  auto const one = x.acquire();
  auto const two = y.acquire();
  CHECK(eventually([&] { return counts.now("renewals_total") >= 4; }));
  CHECK(counts.seconds("renewal") > 0);
  CHECK(counts.now("losses_total{reason=\"expired\"}") == 0);
}

CONTRACT_CASE("metrics: losses by their reason; a lock that only its release finds lost is none") {
  counted const counts(f);
  stranger other(f);
  auto const m = f.manager();
  auto const lose = [&](std::string const& reason, auto const& how) {
    CAPTURE(reason);
    auto x = m->make_mutex(reason, {.ttl = 9s});
    auto const lock = x.acquire();
    how();
    CHECK(counts.comes_to("losses_total{reason=\"" + reason + "\"}", 1));
  };
  lose("taken over", [&] { CHECK(other.take_over("taken over")); });
  lose("row gone", [&] { f.sql("DELETE FROM rowlock_locks WHERE name = 'row gone'"); });
  lose("revoked", [&] { CHECK(m->revoke("revoked", revoke_mode::at_renewal)); });
  CHECK(counts.comes_to("releases_total", 1));  // the revoked row was ours still: given back after its loss
  {
    auto x = m->make_mutex("expired", {.ttl = 3s, .renew = false});
    auto const lock = x.acquire();
    CHECK(counts.comes_to("losses_total{reason=\"expired\"}", 1));
  }
  CHECK(counts.comes_to("releases_total", 2));
  auto z = m->make_mutex("z");
  auto lock = z.acquire();
  REQUIRE(other.take_over("z"));
  CHECK(lock->release() == release_result::already_lost);
  CHECK(counts.now("losses_total{reason=\"taken over\"}") == 1);
  CHECK(counts.now("releases_total") == 2);
  CHECK(counts.now("acquisitions_total") == 5);
}

ROW_LOCK_CASE("metrics: a row lock whose session was ended is lost by that reason") {
  counted const counts(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x", {.ttl = 600ms});
  auto const lock = x.acquire();
  f.probe->before = [](std::string const& s) {
    if (s == "row_ping") throw error(errc::unreachable, "cut off by the test");
  };
  CHECK(counts.comes_to("losses_total{reason=\"session ended\"}", 1));
  CHECK(counts.now("errors_total") >= 1);
  CHECK(counts.now("renewals_total") == 0);
}

CONTRACT_CASE("metrics: an error, and the release that the keeper makes up for, with how long it took") {
  counted const counts(f);
  std::atomic<int> failing{1};
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.acquire();
  f.probe->before = [&](std::string const& s) {
    if (s != "lock_release") return;
    if (failing-- > 0) throw error(errc::unreachable, "cut off by the test");
    std::this_thread::sleep_for(60ms);  // what is to be measured
  };
  CHECK(lock->release() == release_result::in_doubt);
  CHECK(counts.now("errors_total") == 1);
  CHECK(counts.comes_to("releases_total", 1));
  CHECK(counts.seconds("release") >= 0.06);
  CHECK(counts.seconds("release") < 60);
}
