// Ten thousand locks held by one process.
#include <malloc.h>
#include <sqlite3.h>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

CONTRACT_CASE(
    "ten thousand locks: a renewal statement per thousand and interval, under 1 KiB of memory each") {
  // What must hold for a lease; the others get there by more statements each. How many there are of a
  // renewal, and what they weigh, is the same by way of a pooler.
  bool const in_full = pair.strategy == strategy::lease && pair.via == route::direct;
  int const count = in_full ? 10'000 : 2'000;
  int const parts = count / 1000;  // of a renewal: C7
  constexpr auto ttl = 60s;
  auto const m = f.manager();
  std::vector<mutex> mutexes;
  mutexes.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) mutexes.push_back(m->make_mutex("many/" + std::to_string(i), {.ttl = ttl}));
  std::vector<acquisition> locks;
  locks.reserve(static_cast<std::size_t>(count));
  // Without what SQLite has, its page cache above all: that is as large as the rows, up to a bound, whoever
  // holds the locks. AddressSanitizer's and ThreadSanitizer's allocators leave mallinfo2() at zero: there is
  // nothing to look at there.
  bool const counted = ::mallinfo2().uordblks != 0;
  auto const used = [] {
    return static_cast<std::int64_t>(::mallinfo2().uordblks) - std::int64_t{::sqlite3_memory_used()};
  };
  auto const before = used();
  auto const start = boot_clock::now();
  for (auto& x : mutexes) locks.push_back(x.try_acquire());
  // What the sessions keep besides is shared: it weighs more on fewer locks. Looked at until no renewal is
  // under way, which has all the terms at hand.
  auto const per_lock = [&] { return (used() - before) / count; };
  if (counted) {
    CHECK(eventually([&] { return per_lock() < (in_full ? 1024 : 1536); }));
    MESSAGE("bytes per lock: ", per_lock());
  }
  for (auto const& l : locks) REQUIRE(l);
  auto const intervals_of_taking = (boot_clock::now() - start) / (ttl / 6);

  auto const renewed = f.probe->executed("lock_renew");
  CHECK(renewed <= (intervals_of_taking + 1) * parts);
  std::vector<boot_time_point> trust;
  auto const watched = boot_clock::now();
  for (auto const& l : locks) trust.push_back(*l->trusted_until());
  REQUIRE(eventually(
      [&] {
        for (int i = 0; i < count; ++i)
          if (*locks[static_cast<std::size_t>(i)]->trusted_until() <= trust[static_cast<std::size_t>(i)])
            return false;
        return true;
      },
      150s));
  CHECK(f.probe->executed("lock_renew") - renewed <= ((boot_clock::now() - watched) / (ttl / 6) + 2) * parts);
  CHECK(f.probe->executed("lock_check") == 0);
}
