// transaction::done(): data, and the record that they are there, committed together.

#include <atomic>
#include <thread>

#include "base/boot_lead.hpp"
#include "contract/waits.hpp"
#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::chrono::milliseconds kept = 1h;

held_lock take(lock_manager& m, std::string const& name = "x", std::chrono::milliseconds ttl = 30s) {
  return *m.make_mutex(name, {.strategy = strategy::once, .ttl = ttl}).acquire();
}

bool is_done(fixture& f, std::string const& name = "x") {
  auto const row = stranger(f).read(name);
  return row && row->holder.done;
}

}  // namespace

TEST_CASE_TEMPLATE("done: with COMMIT, at each isolation level, data and record are there", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  int n = 0;
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    auto const key = "x" + std::to_string(n);
    auto held = take(*m, key);
    begin(f, *p, level);
    tx->require(held);
    p->run(f.set_counter(++n));
    tx->done(held, kept, "by the transaction");
    if constexpr (!On::sqlite) CHECK_FALSE(is_done(f, key));
    CHECK(held.valid());
    p->commit();
    CHECK(is_done(f, key));
    CHECK(p->value(f.read_counter()) == std::to_string(n));
    auto const row = *stranger(f).read(key);
    CHECK(row.holder.note == "by the transaction");
    CHECK(row.holder.expires_in > kept - 1min);
    CHECK(row.holder.expires_in <= kept);
    CHECK(held.release() == release_result::released);
    CHECK_FALSE(held.loss());
    CHECK(is_done(f, key));
  }
}

TEST_CASE_TEMPLATE("done: with ROLLBACK nothing is recorded, and the lock is held and renewed as before", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(*m, "x", 9s);
  for (int round = 0; round < 2; ++round) {
    begin(f, *p);
    tx->done(held, kept);
    p->run("ROLLBACK");
    CHECK_FALSE(is_done(f));
    auto const trust = *held.trusted_until();
    CHECK(eventually([&] { return held.trusted_until() > trust; }));
  }
  CHECK(held.valid());
  SUBCASE("it can be recorded after that") {
    begin(f, *p);
    tx->done(held, kept);
    p->commit();
    CHECK(is_done(f));
  }
  SUBCASE("and be given back") {
    CHECK(held.release() == release_result::released);
    CHECK(stranger(f).sees_free("x"));
  }
  SUBCASE("and be recorded by its handle") {
    CHECK(held.done(kept));
    CHECK(is_done(f));
  }
}

TEST_CASE_TEMPLATE("done: the keeper takes its term for finished, without a loss", On, ROWLOCK_HANDLES) {
  base::boot_clock_may_lead();
  On f;
  std::atomic<int> losses{0};
  auto o = f.options;
  o.on_event = [&](event const& e) {
    if (e.kind == event_kind::lost) ++losses;
  };
  auto const m = f.manager(o);
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(*m, "x", 30s);
  begin(f, *p);
  tx->done(held, kept);
  p->commit();
  base::boot_clock_leads_by(10s);  // it is to be renewed
  CHECK(eventually([&] { return !held.valid(); }));
  CHECK_FALSE(held.loss());
  CHECK_FALSE(held.loss_token().stop_requested());
  CHECK(held.release() == release_result::released);
  CHECK(losses == 0);
  CHECK(is_done(f));
}

TEST_CASE_TEMPLATE("done: a takeover waits for the transaction, and then finds it done", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.options.strategy = strategy::once;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  stranger other(f);
  for (std::string const end : {"COMMIT", "ROLLBACK"}) {
    CAPTURE(end);
    auto held = take(*m, end);
    auto const row = *other.read(end);
    begin(f, *p);
    tx->done(held, kept);
    CHECK_FALSE(other.take_over(end));
    p->run(end);
    // By what was read before: the term is gone if it is done.
    CHECK(other.claim(end, {row.term, row.renewals}) == (end == "ROLLBACK"));
    CHECK(is_done(f, end) == (end == "COMMIT"));
  }
}

TEST_CASE_TEMPLATE("done: lost, revoked, given back: refused, and nothing is recorded", On, ROWLOCK_HANDLES) {
  On f;
  f.options.strategy = strategy::once;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const done = [&](held_lock const& held) {
    begin(f, *p);
    auto const reason = reason_of([&] { tx->done(held, kept); });
    p->run("ROLLBACK");
    return reason;
  };
  auto taken = take(*m, "a");
  stranger other(f);
  REQUIRE(other.take_over("a"));
  CHECK(done(taken) == errc::lock_lost);
  CHECK(taken.loss() == loss_reason::taken_over);
  auto revoked = take(*m, "b");
  REQUIRE(m->revoke("b", revoke_mode::at_renewal));
  CHECK(done(revoked) == errc::lock_lost);
  auto back = take(*m, "c");
  (void)back.release();
  CHECK(done(back) == errc::lock_lost);
  CHECK_FALSE(is_done(f, "a"));
  CHECK_FALSE(is_done(f, "b"));
  auto lease = *m->make_mutex("l", {.strategy = strategy::lease}).acquire();
  CHECK(done(lease) == errc::unsupported);
  auto held = take(*m, "d");
  CHECK(reason_of([&] { tx->done(held, kept); }) == errc::not_in_transaction);
  begin(f, *p);
  CHECK(reason_of([&] { tx->done(held, 0ms); }) == errc::invalid_argument);
  CHECK(reason_of([&] { tx->done(held, kept, std::string(1025, 'x')); }) == errc::invalid_argument);
  p->run("ROLLBACK");
}

TEST_CASE_TEMPLATE("done: by a transaction whose COMMIT went unheard: a second one is refused", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const q = f.open();
  auto held = take(*m);
  begin(f, *p);
  p->view(*m)->done(held, kept, "first");
  p->run(f.set_counter(1));
  p->run("COMMIT");  // as if its reply had been lost
  begin(f, *q);
  q->run(f.set_counter(2));
  CHECK(reason_of([&] { q->view(*m)->done(held, kept, "second"); }) == errc::lock_lost);
  q->run("ROLLBACK");
  CHECK(q->value(f.read_counter()) == "1");
  CHECK(stranger(f).read("x")->holder.note == "first");
  // Its handle, too, finds that it is done.
  CHECK(held.done(kept, "third"));
  CHECK(stranger(f).read("x")->holder.note == "first");
}

TEST_CASE_TEMPLATE(
    "done: another transaction that has the row is skipped, and waited for, as long as is allowed", On,
    ROWLOCK_SERVER_HANDLES) {
  On f;
  auto o = f.options;
  o.reply_timeout = 4s;
  auto const m = f.manager(o);
  auto const p = f.open();
  auto const q = f.open();
  auto held = take(*m);
  begin(f, *q);
  q->view(*m)->done(held, kept, "first");
  begin(f, *p);
  CHECK(reason_of([&] { p->view(*m)->done(held, kept, "second"); }) == errc::row_locked);
  q->run("ROLLBACK");
  p->view(*m)->done(held, kept, "second");
  p->commit();
  CHECK(stranger(f).read("x")->holder.note == "second");
}

TEST_CASE_TEMPLATE("done: a snapshot older than the take is too old", On, ROWLOCK_SERVER_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  begin(f, *p, "REPEATABLE READ");
  CHECK(p->value(f.read_counter()) == "0");
  auto held = take(*m);
  CHECK(reason_of([&] { tx->done(held, kept); }) == errc::snapshot_too_old);
  CHECK(p->value(f.read_counter()) == "0");
  p->run("ROLLBACK");
  begin(f, *p, "REPEATABLE READ");
  tx->done(held, kept);
  p->commit();
  CHECK(is_done(f));
}

TEST_CASE_TEMPLATE("done: the session's own time is not asked [B42]", On, ROWLOCK_INNODB_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = take(*m);
  p->run("SET timestamp = 946684800");  // 2000
  begin(f, *p);
  p->view(*m)->done(held, kept);
  p->commit();
  auto const row = *stranger(f).read("x");
  CHECK(row.holder.expires_in > kept - 1min);
  CHECK(row.holder.expires_in <= kept);
  CHECK(std::chrono::system_clock::now() - row.holder.acquired_at < 10min);
}

TEST_CASE_TEMPLATE(
    "done: as long as the transaction is open, a renewal skips the row, and no loss is reported", On,
    ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = take(*m, "x", 9s);
  begin(f, *p);
  p->view(*m)->done(held, kept);
  f.probe->reset();
  CHECK(eventually([&] { return f.probe->executed("lock_renew") >= 1; }));
  CHECK(held.valid());
  p->commit();
  CHECK(eventually([&] { return !held.valid(); }));
  CHECK_FALSE(held.loss());
}

TEST_CASE_TEMPLATE("done: released amid the transaction: the row ends as the transaction does", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  for (std::string const end : {"COMMIT", "ROLLBACK"}) {
    CAPTURE(end);
    auto held = take(*m, end);
    begin(f, *p);
    tx->done(held, kept);
    CHECK(held.release() == release_result::handed_over);
    p->run(end);
    if (end == "COMMIT") {
      std::this_thread::sleep_for(500ms);  // the keeper has tried to free it by then
      CHECK(is_done(f, end));
    } else {
      CHECK(eventually([&] { return stranger(f).sees_free(end); }));
    }
  }
}

TEST_CASE_TEMPLATE("done: released after it: a record that can't be read is doubt, and no loss", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto held = take(*m);
  begin(f, *p);
  p->view(*m)->done(held, kept);
  p->commit();
  f.probe->before = [reads = std::make_shared<std::atomic<int>>(0)](std::string const& statement) {
    // The first one looks for the reason.
    if (statement == "lock_read" && ++*reads > 1) throw error(errc::unreachable, "by the test");
  };
  CHECK(held.release() == release_result::in_doubt);
  f.probe->before = nullptr;
  CHECK_FALSE(held.loss());
  CHECK(is_done(f));
}

// Where the whole file is locked, that is tried for a tenth of a second.
TEST_CASE_TEMPLATE("done: released after it: a slow machine loses nothing", On, sqlite3_on_sqlite,
                   soci_on_sqlite) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  for (std::string const slow : {"lock_release", "lock_check"}) {
    CAPTURE(slow);
    auto held = take(*m, slow);
    begin(f, *p);
    p->view(*m)->done(held, kept);
    p->commit();
    f.probe->before = [slow, was = std::make_shared<std::atomic<bool>>(false)](std::string const& statement) {
      if (statement == slow && !was->exchange(true)) std::this_thread::sleep_for(150ms);
    };
    CHECK(held.release() == release_result::released);
    f.probe->before = nullptr;
    CHECK_FALSE(held.loss());
  }
}

TEST_CASE_TEMPLATE("done: of run_once() the transaction alone says whether it is done", On, ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const work = [&](char const* end) {
    return run_once(*m, "x", kept, [&](once_run& run) {
      begin(f, *p);
      p->run(f.set_counter(1));
      tx->done(run, "the result");
      p->run(end);
    });
  };
  CHECK(reason_of([&] { (void)work("ROLLBACK"); }) == errc::transaction_ended);
  CHECK_FALSE(is_done(f));
  CHECK(stranger(f).sees_free("x"));
  CHECK(p->value(f.read_counter()) == "0");
  auto const came = work("COMMIT");
  CHECK(came.status == once_status::ran);
  CHECK(came.result == "the result");
  CHECK(p->value(f.read_counter()) == "1");
  CHECK(work("COMMIT").result == "the result");
  CHECK(work("COMMIT").status == once_status::was_done);
}

TEST_CASE_TEMPLATE("done: work that throws after its COMMIT is done all the same", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const work = [&](once_run& run) {
    begin(f, *p);
    tx->done(run);
    p->commit();
    throw std::runtime_error("by the test");
  };
  CHECK_THROWS_AS((void)run_once(*m, "x", kept, work), std::runtime_error);
  CHECK(is_done(f));
  CHECK(run_once(*m, "x", kept, work).status == once_status::was_done);
}

TEST_CASE_TEMPLATE("done: trust that ended between done and COMMIT takes nothing back", On, ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto const came = run_once(*m, "x", kept,
                             [&](once_run& run) {
                               begin(f, *p);
                               tx->done(run);
                               CHECK(eventually([&] { return run.stop_token().stop_requested(); }));
                               p->commit();
                             },
                             {.ttl = 4s});
  CHECK(came.status == once_status::ran);
  CHECK(is_done(f));
}
