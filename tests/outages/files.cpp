// SQLite has no server to be away; what comes near is a program that keeps the file to itself.
#include <future>
#include <thread>

#include "contract/fixture.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

PAIRS_TEMPLATE_CASE("file: D7: another program's long write transaction is like an outage, and is ridden out",
                    pair, all<in_rows, on_sqlite>) {
  pair f;
  auto o = f.options;
  o.reply_timeout = 3s;  // whoever waits for the file does so for a second at a time
  o.release_timeout = 300ms;
  lock_manager m(f.source, o);
  auto long_lease = m.make_mutex("long", {.ttl = 60s}).acquire();
  auto brief_lease = m.make_mutex("brief", {.ttl = 2s}).acquire();
  auto given_back = m.make_mutex("given back", {.ttl = 60s}).acquire();
  REQUIRE(given_back);
  auto const other = f.source.implementation()->connect(boot_clock::now() + 60s);
  other->script("BEGIN IMMEDIATE", boot_clock::now() + 60s);

  auto const start = std::chrono::steady_clock::now();
  CHECK_FALSE(m.make_mutex("x").try_acquire());
  auto const timed_out = m.make_mutex("x").try_acquire_for(200ms);
  CHECK(timed_out.status() == acquire_status::contended);
  CHECK(given_back->release() == release_result::handed_over);
  CHECK_NOTHROW((void)m.list());  // who only reads is not kept waiting
  CHECK(std::chrono::steady_clock::now() - start < 50s);
  std::stop_source stop;
  auto cancelled =
      std::async(std::launch::async, [&] { return m.make_mutex("y").acquire(stop.get_token()).status(); });
  auto patient =
      std::async(std::launch::async, [&] { return bool(m.make_mutex("x").try_acquire_for(120s)); });
  CHECK(eventually([&] { return brief_lease->loss() == loss_reason::row_locked; }));
  stop.request_stop();
  CHECK(cancelled.get() == acquire_status::cancelled);

  other->script("ROLLBACK", boot_clock::now() + 60s);
  CHECK(patient.get());
  CHECK(long_lease->valid());
  CHECK(long_lease->release() == release_result::released);
  CHECK(eventually([&] { return stranger(f).sees_free("given back"); }));
}

TEST_CASE("C21: run --no-wait tells a file that is locked from a lock that somebody holds") {
  sqlite_fixture f;
  auto const run = [&] {
    child_process child(
        {"/bin/sh", "-c",
         std::string(ROWLOCK_PROGRAM) + " --db " + f.url() + " run --no-wait x -- true 2>&1"});
    CHECK(child.finish() == 75);
    return child.output();
  };
  auto const other = f.source.implementation()->connect(boot_clock::now() + 60s);
  other->script("BEGIN IMMEDIATE", boot_clock::now() + 60s);
  auto const locked = run();
  CAPTURE(locked);
  CHECK(locked.find("'x' has no holder") != std::string::npos);
  other->script("ROLLBACK", boot_clock::now() + 60s);
  lock_manager m(f.source, f.options);
  auto const held = m.make_mutex("x").acquire();
  auto const busy = run();
  CAPTURE(busy);
  CHECK(busy.find("'x' is held by") != std::string::npos);
  CHECK(busy.find("no holder") == std::string::npos);
}
