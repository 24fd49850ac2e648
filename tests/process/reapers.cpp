// Reapers at full speed beside processes that take and give back: who holds the lock is alone, and its token
// is higher than all before.
#include <fstream>
#include <thread>

#include "process/taker.hpp"
#include "reap/sweep.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

reaper_options at_once(fixture const& f) {
  reaper_options o;
  o.schema = f.options.schema;
  o.idle = 0ms;
  o.batch = 3;
  o.wait = 0ms;
  return o;
}

}  // namespace

CONTRACT_CASE(
    "P1, P3: takers beside reapers exclude each other and their tokens rise, though reapers are killed") {
  // As if the clock had been half a day ahead until now: the clock alone would let tokens fall. Not for
  // unique_insert, whose tokens' rows go by the clock.
  auto const now =
      std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch());
  if (f.options.strategy == strategy::lease)
    f.sql("UPDATE rowlock_meta SET token_floor = " + std::to_string((now + 12h).count()));
  scratch_folder folder;
  auto const file = folder.file("number");
  constexpr int processes = 4;
  constexpr int times = 500;
  std::vector<std::unique_ptr<taker>> all;
  for (int i = 0; i < processes; ++i) all.push_back(std::make_unique<taker>(f, "x", 30s));
  std::atomic<bool> done{false};
  std::atomic<std::int64_t> deleted{0};
  std::jthread const reaping([&] {
    // Without the lease, so that it is at it all the time.
    sessions::database database(f.source.implementation(), f.options);
    auto const o = at_once(f);
    while (!done) deleted += rowlock::reap::sweep(database, o, {}).run().deleted.all();
  });
  // Beside it one after the other that is killed; their lease is taken away, or the next one would wait for
  // its end.
  std::jthread const killing([&] {
    auto const m = f.manager();
    while (!done) {
      taker doomed(f, "x", 30s);
      doomed.write_line("reap");
      (void)doomed.read_until("reaping");
      doomed.read_for(50ms);
      doomed.kill();
      doomed.finish();
      (void)m->revoke("rowlock.reaper", revoke_mode::now);
    }
  });
  for (auto& t : all)
    t->write_line(std::string("rise ") + to_string(f.options.strategy) + " " + file + " " +
                  std::to_string(times));
  for (auto& t : all) CHECK(t->next_line(300s).value_or("no reply") == "risen");
  done = true;
  long sum = 0;
  for (auto const* which : {"0", "1", "2", "3", "4"}) {
    long number = 0;
    std::ifstream(file + which) >> number;
    sum += number;
  }
  CHECK(sum == processes * times);
  MESSAGE(deleted.load() << " rows were reaped meanwhile");
  CHECK(deleted > 0);
}
