// Who waits for permits: nobody starves, and what the head of the line waits for is kept for it [C44].
#include <thread>

#include "contract/permits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// By hand, because it is to be there without anybody who waits.
void intend(fixture& f, std::int64_t units, std::int64_t ends_in) {
  f.sql("UPDATE rowlock_locks SET intent_units = " + std::to_string(units) +
        ", intent_term = 'somebody', intent_until = " + in_ms(f, ends_in) + " WHERE name = 'x'");
}

/// Whether a reader that takes what it asks for, and gives it back, has it now.
bool could_read(permit_taker& t) { return t.take(permit_taker::reader()) && t.release(); }

}  // namespace

LEASE_CASE("permits: who waits gets it when there is room") {
  auto const m = f.manager();
  other_program other(f);
  SUBCASE("a writer behind a reader") {
    REQUIRE(other.reads());
    std::atomic<bool> has_it = false;
    std::jthread const writer(
        [&](std::stop_token const& stop) { has_it = bool(m->make_shared_mutex("x").acquire(stop)); });
    std::this_thread::sleep_for(100ms);  // in which nothing may happen
    CHECK_FALSE(has_it);
    other.give_back();
    CHECK(eventually([&] { return has_it.load(); }));
  }
  SUBCASE("a reader behind a writer") {
    REQUIRE(other.writes());
    std::atomic<bool> has_it = false;
    std::jthread const reader(
        [&](std::stop_token const& stop) { has_it = bool(m->make_shared_mutex("x").acquire_shared(stop)); });
    std::this_thread::sleep_for(100ms);  // in which nothing may happen
    CHECK_FALSE(has_it);
    other.give_back();
    CHECK(eventually([&] { return has_it.load(); }));
  }
  SUBCASE("eight of ten behind five") {
    REQUIRE(other.has(5, 10));
    std::atomic<bool> has_it = false;
    std::jthread const eight(
        [&](std::stop_token const& stop) { has_it = bool(m->make_semaphore("x", 10).acquire(8, stop)); });
    std::this_thread::sleep_for(100ms);  // in which nothing may happen
    CHECK_FALSE(has_it);
    other.give_back();
    CHECK(eventually([&] { return has_it.load(); }));
  }
}

LEASE_CASE("permits: nobody takes what the head of the line waits for, as long as that counts [C44]") {
  auto const m = f.manager();
  other_program other(f);
  auto x = m->make_semaphore("x", 10);
  REQUIRE(other.has(2, 10));
  CHECK(x.try_acquire());
  // It counts for 2 s at most: told anew until a take has met it.
  auto met = acquire_status::acquired;
  for (int i = 0; i < 20 && met == acquire_status::acquired; ++i) {
    intend(f, 8, 1900);
    auto const refused = x.try_acquire();
    met = refused ? acquire_status::acquired : refused.status();
  }
  CHECK(met == acquire_status::busy);
  intend(f, 7, 1500);
  CHECK(x.try_acquire());  // there is room for both
  intend(f, 8, 60'000);    // the clock went back
  CHECK(x.try_acquire());
  intend(f, 8, -1);
  CHECK(x.try_acquire());
}

// Each of the two statements that could let it in: the look, and the take itself.
LEASE_CASE("permits: a reader that would fit does not come before a writer that is first in line [C44]") {
  permit_taker reader(f);
  permit_taker next(f);
  REQUIRE(reader.take(permit_taker::reader()));
  REQUIRE(could_read(next));
  bool refused = false;
  for (int i = 0; i < 20 && !refused; ++i) {  // it counts for 2 s at most
    intend(f, strategies::all_units, 1900);
    refused = !could_read(next);
  }
  CHECK(refused);
  auto first = permit_taker::reader();  // whoever is first obeys nobody
  first.where = strategies::wanted_permit::place::first;
  CHECK(next.take(first));
  CHECK(next.release());
  auto mine = permit_taker::reader();  // its own is none
  mine.intent = "somebody";
  CHECK(next.take(mine));
  CHECK(number(f, "SELECT count(*) FROM rowlock_locks WHERE intent_until IS NULL") == 1);  // and is over
  CHECK(next.release());
  intend(f, strategies::all_units, 60'000);  // the clock went back
  CHECK(could_read(next));
  intend(f, strategies::all_units, -1);
  CHECK(could_read(next));
}

LEASE_CASE("permits: while a writer waits no new reader comes in, with a line and without one [C44]") {
  for (int const wait_queues : {4, 0}) {
    CAPTURE(wait_queues);
    auto o = f.options;
    o.queue_connections = wait_queues;
    auto const m = f.manager(o);
    permit_taker reader(f);
    permit_taker next(f);
    REQUIRE(reader.take(permit_taker::reader()));
    std::atomic<bool> has_it = false;
    std::jthread const writer([&](std::stop_token const& stop) {
      auto const got = m->make_shared_mutex("x").acquire(stop);
      has_it = bool(got);
    });
    CHECK(eventually([&] { return !could_read(next); }));
    CHECK_FALSE(next.met_locked());
    CHECK_FALSE(has_it);
    CHECK(reader.release());
    CHECK(eventually([&] { return has_it.load(); }));
    CHECK(eventually([&] { return could_read(next); }));
  }
}

LEASE_CASE("permits: a writer has its turn among readers who leave no moment without a reader [C44]") {
  for (int const wait_queues : {4, 0}) {
    CAPTURE(wait_queues);
    auto o = f.options;
    o.queue_connections = wait_queues;
    auto const m = f.manager(o);
    permit_taker readers[2] = {permit_taker(f), permit_taker(f)};
    bool reads[2] = {true, false};
    REQUIRE(readers[0].take(permit_taker::reader()));
    std::atomic<bool> has_it = false;
    std::jthread const writer(
        [&](std::stop_token const& stop) { has_it = bool(m->make_shared_mutex("x").acquire(stop)); });
    std::this_thread::sleep_for(1500ms);  // without a line it asks seldom by now
    // One gives back only once the other has come in, or was kept out.
    int turn = 0;
    CHECK(eventually([&] {
      auto const next = 1 - turn;
      reads[next] = readers[next].take(permit_taker::reader());
      if (reads[turn]) CHECK(readers[turn].release());
      reads[turn] = false;
      turn = next;
      return has_it.load();
    }));
    if (reads[turn]) CHECK(readers[turn].release());
  }
}

LEASE_CASE("permits: C58: a reader has its turn among writers of whom one is always waiting") {
  for (int const wait_queues : {4, 0}) {
    CAPTURE(wait_queues);
    auto o = f.options;
    o.queue_connections = wait_queues;
    auto const m = f.manager(o);
    permit_taker writers[2] = {permit_taker(f), permit_taker(f)};
    strategies::wanted_permit const wanted[2] = {permit_taker::writer(), permit_taker::writer()};
    bool writes[2] = {true, false};
    REQUIRE(eventually([&] { return writers[0].take(wanted[0]); }));
    std::atomic<bool> has_it = false;
    std::jthread const reader(
        [&](std::stop_token const& stop) { has_it = bool(m->make_shared_mutex("x").acquire_shared(stop)); });
    // The other one asks first, and is refused; then the one that writes gives back, and that one asks again
    // at once.
    int turn = 0;
    CHECK(eventually([&] {
      auto const next = 1 - turn;
      bool const had = writers[next].take(wanted[next]);
      if (writes[turn]) CHECK(writers[turn].release());
      writes[turn] = false;
      writes[next] = had || writers[next].take(wanted[next]);
      turn = next;
      return has_it.load();
    }));
    if (writes[turn]) CHECK(writers[turn].release());
  }
}
