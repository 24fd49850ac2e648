// run_once(), and held_lock::done(): a lease whose row ends as a record that the work is done.
#include <future>
#include <thread>

#include "base/text.hpp"
#include "contract/open_transaction.hpp"
#include "contract/reaping.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::chrono::milliseconds kept_for = 1h;

/// Work that counts its runs.
struct counted_work {
  int runs = 0;
  once_result operator()(lock_manager& m, once_options o = {}, std::chrono::milliseconds keep = kept_for) {
    return run_once(
        m, "x", keep,
        [this](once_run& run) {
          ++runs;
          run.set_result("run " + std::to_string(runs));
        },
        std::move(o));
  }
};

template <class Call>
std::optional<errc> reason_of(Call const& call) {
  try {
    call();
  } catch (error const& e) {
    INFO(std::string(e.what()));
    return e.reason();
  }
  return std::nullopt;
}

/// As if it had been written so much earlier.
void age(fixture& f, std::chrono::milliseconds by) {
  auto const ms = std::to_string(by.count());
  f.sql("UPDATE rowlock_locks SET expires_at = " +
        (dialect_of(f) == dialect::sqlite  ? "expires_at - " + ms
         : dialect_of(f) == dialect::mysql ? "expires_at - INTERVAL " + ms + " * 1000 MICROSECOND"
                                           : "expires_at - interval '" + ms + " milliseconds'") +
        " WHERE name = 'x'");
}

mutex_options as_once(mutex_options o = {}) {
  o.strategy = strategy::once;
  return o;
}

}  // namespace

ONCE_CASE("once: runs, and then says by whom it was done, when, and with which result") {
  auto const m = f.manager();
  counted_work work;
  auto const before = std::chrono::system_clock::now() - 5s;
  auto const first = work(*m);
  CHECK(first.status == once_status::ran);
  CHECK(first.result == "run 1");
  CHECK_FALSE(first.by);
  lock_manager other(f.source, f.options);
  for (auto* again : {m.get(), &other}) {
    auto const came = work(*again);
    CHECK(came.status == once_status::was_done);
    CHECK(came);
    CHECK(came.result == "run 1");
    REQUIRE(came.by);
    CHECK(came.by->done);
    CHECK(came.by->owner.pid == ::getpid());
    CHECK(came.by->owner.process.empty());
    CHECK(came.by->acquired_at > before);
    CHECK(came.by->acquired_at < before + 120s);
    CHECK(came.by->expires_in > 59min);
    CHECK(came.by->expires_in <= kept_for);
  }
  CHECK(work.runs == 1);
}

ONCE_CASE(
    "once: while it runs it runs nowhere else, and shows in the list; done it shows only if asked for") {
  auto const m = f.manager();
  lock_manager other(f.source, f.options);
  counted_work work;
  auto const came = run_once(*m, "x", kept_for, [&](once_run& run) {
    auto const elsewhere =
        std::async(std::launch::async, [&] { return work(other, {.note = "second"}); }).get();
    CHECK(elsewhere.status == once_status::runs_elsewhere);
    CHECK_FALSE(elsewhere);
    REQUIRE(elsewhere.by);
    CHECK_FALSE(elsewhere.by->done);
    CHECK(elsewhere.by->token == run.token());
    auto const listed = other.list();
    REQUIRE(listed.size() == 1);
    CHECK(listed[0].held);
    CHECK_FALSE(listed[0].holder.done);
    CHECK(run.key() == "x");
    CHECK(run.lock().valid());
    CHECK_FALSE(run.stop_token().stop_requested());
    CHECK(reason_of([&] { (void)work(*m); }) == errc::would_deadlock);
  });
  CHECK(came.status == once_status::ran);
  CHECK(work.runs == 0);
  CHECK(other.list().empty());
  CHECK(other.list({.idle = true}).empty());
  auto const listed = other.list({.done = true});
  REQUIRE(listed.size() == 1);
  CHECK_FALSE(listed[0].held);
  CHECK(listed[0].holder.done);
  CHECK(listed[0].unknown.empty());
  auto const found = other.find("x");
  REQUIRE(found);
  CHECK_FALSE(found->held);
  CHECK(found->holder.done);
}

ONCE_CASE("once: C59: work that fails frees the key at once, and nothing is recorded") {
  auto const m = f.manager();
  counted_work work;
  CHECK_THROWS_AS(
      (void)run_once(*m, "x", kept_for, [](once_run&) { throw std::runtime_error("by the test"); }),
      std::runtime_error);
  CHECK(stranger(f).sees_free("x"));
  CHECK(m->list({.done = true}).empty());
  CHECK(work(*m).status == once_status::ran);
}

ONCE_CASE(
    "once: a process that dies before the record frees the key when the ttl is over, and it runs again") {
  stranger dead(f, "dead");
  REQUIRE(dead.take("x", 6s));  // and did its work, perhaps
  auto const m = f.manager();
  counted_work work;
  CHECK(work(*m).status == once_status::runs_elsewhere);
  auto const came = work(*m, {.wait = 60s});
  CHECK(came.status == once_status::ran);
  CHECK(work.runs == 1);
}

ONCE_CASE("once: waits for one that runs elsewhere, and does it itself if that fails") {
  auto const m = f.manager();
  lock_manager other(f.source, f.options);
  counted_work work;
  std::future<once_result> second;
  bool const fails = [&] {
    bool it_does = false;
    SUBCASE("it is done") { it_does = false; }
    SUBCASE("it fails") { it_does = true; }
    return it_does;
  }();
  auto const first = [&] {
    return run_once(*m, "x", kept_for, [&](once_run& run) {
      second = std::async(std::launch::async, [&] { return work(other, {.wait = 60s}); });
      CHECK(eventually([&] { return f.probe->executed_in_all() > 0 && other.find("x")->held; }));
      std::this_thread::sleep_for(100ms);  // it waits by then, or will find what comes
      if (fails) throw std::runtime_error("by the test");
      run.set_result("of the first");
    });
  };
  if (fails) {
    CHECK_THROWS_AS((void)first(), std::runtime_error);
    CHECK(second.get().status == once_status::ran);
    CHECK(work.runs == 1);
  } else {
    CHECK(first().status == once_status::ran);
    auto const came = second.get();
    CHECK(came.status == once_status::was_done);
    CHECK(came.result == "of the first");
    CHECK(work.runs == 0);
  }
}

ONCE_CASE("once: waiting is ended by its stop token, and by its time") {
  stranger elsewhere(f);
  REQUIRE(elsewhere.take("x"));
  auto const m = f.manager();
  counted_work work;
  CHECK(work(*m, {.wait = 50ms}).status == once_status::runs_elsewhere);
  std::stop_source stop;
  std::jthread const stopper([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  CHECK(work(*m, {.wait = 60s, .stop = stop.get_token()}).status == once_status::cancelled);
}

ONCE_CASE("once: a key that is done is not waited for, by whatever call") {
  auto const m = f.manager();
  counted_work work;
  REQUIRE(work(*m));
  auto const start = boot_clock::now();
  auto x = m->make_mutex("x");
  CHECK(x.acquire().status() == acquire_status::done);
  CHECK(x.try_acquire().status() == acquire_status::done);
  auto const came = x.try_acquire_for(60s);
  CHECK(came.status() == acquire_status::done);
  REQUIRE(came.holder());
  CHECK(came.holder()->note == "run 1");
  CHECK_FALSE(x.try_lock());
  CHECK_FALSE(x.try_lock_for(60s));
  CHECK(reason_of([&] { x.lock(); }) == errc::not_acquired);
  CHECK(m->make_mutex("x", {.fair = true}).acquire().status() == acquire_status::done);
  CHECK(boot_clock::now() - start < 30s);
}

// K3: the record is known by its own term.
ONCE_CASE("once: a record whose reply was lost is found by its term, and not made twice") {
  std::atomic<int> lost{1};
  auto const m = f.manager();
  f.probe->after = [&](std::string const& s) {
    if (s == "once_record" && lost-- > 0) lose_reply();
  };
  counted_work work;
  CHECK(work(*m).status == once_status::ran);
  CHECK(f.probe->executed("once_record") == 2);
  CHECK(f.probe->executed("once_keep") == 1);
  CHECK(work(*m).result == "run 1");
  CHECK(work.runs == 1);
}

ONCE_CASE("C70: a record rides out a server that takes no writes, or has no room") {
  for (auto const why : {errc::read_only, errc::storage_full}) {
    std::atomic<int> refused{3};
    auto const m = f.manager();
    f.probe->before = [&](std::string const& s) {
      if (s == "once_record" && refused-- > 0) throw error(why, "by the test");
    };
    counted_work work;
    CHECK(work(*m).status == once_status::ran);
    CHECK(work(*m).status == once_status::was_done);
    CHECK(work.runs == 1);
    CHECK(m->revoke("x", revoke_mode::at_renewal));  // forgotten, for the next round
    f.probe->before = nullptr;
  }
}

ONCE_CASE("once: a record that never arrived is made by the second try") {
  std::atomic<int> lost{1};
  auto const m = f.manager();
  f.probe->before = [&](std::string const& s) {
    if (s == "once_record" && lost-- > 0) lose_reply();
  };
  counted_work work;
  CHECK(work(*m).status == once_status::ran);
  CHECK(work(*m).status == once_status::was_done);
}

ONCE_CASE("once: where it can't be found out whether it is recorded, that is said") {
  auto o = f.options;
  o.reply_timeout = 2s;
  std::atomic<bool> away{false};
  auto const m = f.manager(o);
  f.probe->after = [&](std::string const& s) {
    if (s != "once_record") return;
    away = true;
    lose_reply();
  };
  f.probe->before = [&](std::string const&) {
    if (away) throw error(errc::unreachable, "away by the test");
  };
  counted_work work;
  CHECK(reason_of([&] { (void)work(*m, {.ttl = 30s}); }) == errc::in_doubt);
  f.probe->after = nullptr;
  f.probe->before = nullptr;
  lock_manager other(f.source, f.options);
  CHECK(work(other).status == once_status::was_done);
}

ONCE_CASE(
    "once: what was taken over while its work ran is not recorded, and the other's term is left alone") {
  auto const m = f.manager();
  stranger other(f);
  bool told = false;
  SUBCASE("nobody has noticed") {}
  SUBCASE("the keeper has") { told = true; }
  auto const reason = reason_of([&] {
    (void)run_once(*m, "x", kept_for,
                   [&](once_run& run) {
                     REQUIRE(other.take_over("x"));
                     if (told) CHECK(eventually([&] { return run.stop_token().stop_requested(); }));
                   },
                   {.ttl = told ? 900ms : 60s});
  });
  CHECK(reason == errc::lock_lost);
  CHECK(other.has_still("x"));
  CHECK_FALSE(other.read("x")->holder.done);
}

// By steps: somebody takes the expired row in the moment before the record.
ONCE_CASE("once: a takeover just before the record: the record meets no row") {
  auto const m = f.manager();
  stranger other(f);
  once_before(f, "once_record", [&] { CHECK(other.take_over("x")); });
  counted_work work;
  CHECK(reason_of([&] { (void)work(*m); }) == errc::lock_lost);
  CHECK(other.has_still("x"));
  f.probe->before = nullptr;
  CHECK(work(*m).status == once_status::runs_elsewhere);
}

ONCE_CASE("once: a renewal just before the record, and one just after it, change nothing") {
  auto const m = f.manager();
  stranger other(f);
  std::string term;
  counted_work work;
  once_before(f, "once_record", [&] { CHECK(other.renew("x", other.read("x")->term)); });
  auto const came = run_once(*m, "x", kept_for, [&](once_run& run) { term = run.lock().term().value; });
  CHECK(came.status == once_status::ran);
  CHECK_FALSE(other.renew("x", {term}));
  CHECK(other.read("x")->holder.done);
  CHECK(work(*m).status == once_status::was_done);
}

// The keeper renews by the former term while the reply is on its way, and finds the record: no loss.
ONCE_CASE("once: a keeper that meets the record takes it for the end of its lock") {
  std::atomic<int> losses{0};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind == event_kind::lost) ++losses;
  };
  auto const m = f.manager(o);
  f.probe->after = [&](std::string const& s) {
    if (s == "once_record") std::this_thread::sleep_for(7200ms);  // more than a ttl
  };
  bool stopped = false;
  std::optional<std::stop_callback<std::function<void()>>> hears;
  auto const came = run_once(
      *m, "x", kept_for,
      [&](once_run& run) { hears.emplace(run.lock().loss_token(), [&] { stopped = true; }); }, {.ttl = 6s});
  CHECK(came.status == once_status::ran);
  hears.reset();
  CHECK(losses == 0);
  CHECK_FALSE(stopped);
  CHECK(stranger(f).read("x")->holder.done);
}

ONCE_CASE("once: a row that a transaction has locked is waited for") {
  auto const m = f.manager();
  std::optional<open_transaction> in_the_way;
  std::jthread ends;
  auto const came = run_once(*m, "x", kept_for, [&](once_run&) {
    in_the_way.emplace(f);
    in_the_way->run("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'x'");
    ends = std::jthread([&] {
      std::this_thread::sleep_for(1500ms);  // longer than one statement waits
      in_the_way->run("ROLLBACK");
    });
  });
  CHECK(came.status == once_status::ran);
}

ONCE_CASE("once: when its time is over the work is done again, with a higher token") {
  auto const m = f.manager();
  counted_work work;
  fencing_token first;
  fencing_token second;
  REQUIRE(run_once(*m, "x", kept_for, [&](once_run& run) { first = run.token(); }));
  CHECK(work(*m).status == once_status::was_done);
  age(f, kept_for - 1min);
  CHECK(work(*m).status == once_status::was_done);
  age(f, 2min);
  CHECK(m->list().empty());
  CHECK(run_once(*m, "x", kept_for, [&](once_run& run) { second = run.token(); }).status == once_status::ran);
  CHECK(second > first);
}

ONCE_CASE("once: kept for a hundred years, and not for longer, nor for nothing") {
  auto const m = f.manager();
  counted_work work;
  constexpr std::chrono::milliseconds century = 24h * 365 * 100;
  CHECK(reason_of([&] { (void)work(*m, {}, 0ms); }) == errc::invalid_argument);
  CHECK(reason_of([&] { (void)work(*m, {}, century + 1ms); }) == errc::invalid_argument);
  CHECK(work.runs == 0);
  REQUIRE(work(*m, {}, century).status == once_status::ran);
  auto const came = work(*m);
  CHECK(came.status == once_status::was_done);
  REQUIRE(came.by);
  CHECK(came.by->expires_in > century - 1h);
  CHECK(came.by->expires_in <= century);
  CHECK(m->make_mutex("x").acquire().status() == acquire_status::done);
  CHECK(reap_once(f).deleted.all() == 0);
}

ONCE_CASE("once: a result that can't be kept is refused before anything is recorded") {
  auto const m = f.manager();
  auto const with = [&](std::string const& result) {
    return reason_of(
        [&] { (void)run_once(*m, "x", kept_for, [&](once_run& run) { run.set_result(result); }); });
  };
  CHECK(with(std::string(base::longest_note + 1, 'x')) == errc::invalid_argument);
  CHECK(with("\xff") == errc::invalid_argument);
  CHECK(stranger(f).sees_free("x"));
  CHECK(with(std::string(base::longest_note, 'x')) == std::nullopt);
}

ONCE_CASE("once: the reaper takes a record when it was over for the idle time, and never before") {
  auto const m = f.manager();
  counted_work work;
  REQUIRE(work(*m));
  (void)reap_once(f, {.idle = 0ms});
  (void)reap_unbidden(f, {.idle = -120s});
  CHECK(rows(f) == 1);
  age(f, kept_for - 1min);
  (void)reap_once(f, {.idle = 0ms});
  CHECK(rows(f) == 1);
  CHECK(work(*m).status == once_status::was_done);
  age(f, 2min);
  (void)reap_once(f);
  CHECK(rows(f) == 1);
  CHECK(reap_once(f, {.idle = 1ms}).deleted.lease == 1);
  CHECK(rows(f) == 0);
  CHECK(work(*m).status == once_status::ran);
}

ONCE_CASE("once: the reaper looks again: what was recorded since it looked stays") {
  stranger dead(f, "dead");
  REQUIRE(dead.take("x"));
  age(f, std::chrono::hours(48));
  auto const m = f.manager();
  counted_work work;
  once_before(f, before_delete, [&] { CHECK(work(*m).status == once_status::ran); });
  CHECK(reap_once(f).deleted.all() == 0);
  CHECK(work(*m).status == once_status::was_done);
}

// C5: the clock was an hour ahead when it was recorded.
ONCE_CASE("once: a clock that went back does not keep a record for longer than it says, twice") {
  auto const m = f.manager();
  counted_work work;
  REQUIRE(work(*m, {}, 1s));
  age(f, -std::chrono::hours(1));
  auto const start = boot_clock::now();
  SUBCASE("who tries again and again") {
    CHECK(eventually([&] { return work(*m, {}, 1h).status == once_status::ran; }));
    CHECK(boot_clock::now() - start >= 1020ms);
  }
  SUBCASE("the reaper") {
    CHECK(reap_once(f, {.watch = 60s}).ended == 1);
    CHECK(boot_clock::now() - start >= 1020ms);
    CHECK(work(*m).status == once_status::ran);
  }
}

ONCE_CASE("once: a term that at_least keeps is no record") {
  auto const m = f.manager();
  { auto const held = m->make_mutex("x", as_once({.at_least = 60s})).acquire(); }
  auto const row = stranger(f).read("x");
  REQUIRE(row);
  CHECK_FALSE(row->term.empty());
  CHECK_FALSE(row->holder.done);
  counted_work work;
  CHECK(work(*m).status == once_status::runs_elsewhere);
}

ONCE_CASE("once: an operator who takes it away makes it forgotten") {
  auto const m = f.manager();
  counted_work work;
  REQUIRE(work(*m));
  CHECK(m->revoke("x", revoke_mode::at_renewal));
  CHECK(work(*m).status == once_status::ran);
  CHECK(m->revoke("x", revoke_mode::now));
  CHECK(work(*m).status == once_status::ran);
  CHECK(work.runs == 3);
}

ONCE_CASE("done: a lock of strategy once can be recorded by its handle, and each other one refuses") {
  auto const m = f.manager();
  auto held = m->make_mutex("x", as_once({.owner = takes_over{"the owner's text"}})).acquire();
  REQUIRE(held->done(kept_for, "by hand"));
  CHECK_FALSE(held->valid());
  CHECK_FALSE(held->loss());
  CHECK(held->release() == release_result::released);
  CHECK_FALSE(held->done(kept_for));
  // The same text would take a term over that runs.
  CHECK(m->make_mutex("x", as_once({.owner = takes_over{"the owner's text"}})).try_acquire().status() ==
        acquire_status::done);
  auto lease = m->make_mutex("y", {.strategy = strategy::lease}).acquire();
  CHECK(reason_of([&] { (void)lease->done(kept_for); }) == errc::unsupported);
  CHECK(lease->valid());
}

ONCE_CASE("once: one name has one strategy") {
  auto const m = f.manager();
  counted_work work;
  REQUIRE(work(*m));
  CHECK(reason_of([&] { (void)m->make_mutex("x", {.strategy = strategy::lease}).try_acquire(); }) ==
        errc::strategy_mismatch);
  (void)m->make_mutex("y", {.strategy = strategy::lease}).acquire();
  CHECK(reason_of([&] { (void)run_once(*m, "y", kept_for, [](once_run&) {}); }) == errc::strategy_mismatch);
}

ONCE_CASE("once: twenty threads, one run") {
  auto const m = f.manager();
  std::atomic<int> runs{0};
  std::atomic<int> done{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 20; ++i)
      threads.emplace_back([&] {
        auto const came = run_once(*m, "x", kept_for,
                                   [&](once_run&) {
                                     ++runs;
                                     std::this_thread::sleep_for(20ms);
                                   },
                                   {.wait = 60s});
        if (came) ++done;
      });
  }
  CHECK(runs == 1);
  CHECK(done == 20);
}
