#include "holding/watchdog.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "support/threads.hpp"

using namespace rowlock;
using namespace rowlock::holding;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<hold> held_for(std::chrono::milliseconds lasts) {
  grant_facts f;
  f.name = "name";
  f.term = {"term"};
  f.ttl = lasts;
  f.sent_at = boot_clock::now();
  return std::make_shared<hold>(std::move(f), waiting::local_queue::turn());
}

}  // namespace

TEST_CASE(
    "the watchdog sleeps on when a lock ends later than one that was given back, and wakes for an earlier "
    "one") {
  sessions::events const none({});
  watchdog w(none);
  auto const first = held_for(60s);
  REQUIRE(w.watch(first));
  REQUIRE(test::others_come_to_rest());
  w.forget(*first);
  // It is woken for a loss, and looks while nothing is watched.
  auto const lost = held_for(60s);
  REQUIRE(w.watch(lost));
  CHECK(w.report_lost(lost, loss_reason::revoked));
  REQUIRE(test::others_come_to_rest());
  auto const before = test::times_slept_by_others();
  CHECK(before > 0);
  auto const later = held_for(60s);
  REQUIRE(w.watch(later));
  REQUIRE(test::others_come_to_rest());
  CHECK(test::times_slept_by_others() == before);
  auto const earlier = held_for(30s);
  REQUIRE(w.watch(earlier));
  REQUIRE(test::others_come_to_rest());
  CHECK(test::times_slept_by_others() > before);
  for (auto const& one : {later, earlier}) w.forget(*one);
}
