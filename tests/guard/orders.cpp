// What one transaction asks for twice, or in an order that can't be.

#include "guard/handles.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::chrono::milliseconds kept = 1h;

held_lock take(lock_manager& m, std::string const& name = "x") {
  return *m.make_mutex(name, {.strategy = strategy::once}).acquire();
}

bool is_done(fixture& f, std::string const& name = "x") {
  auto const row = stranger(f).read(name);
  return row && row->holder.done;
}

}  // namespace

// What a retry can't help, says so, and takes no time: reply_timeout would go by.
TEST_CASE_TEMPLATE(
    "C72: a transaction that has called done() can't ask for the lock again, and hears so at once", On,
    ROWLOCK_HANDLES) {
  On f;
  auto o = f.options;
  o.reply_timeout = 10min;
  auto const m = f.manager(o);
  auto const p = f.open();
  auto const tx = p->view(*m);
  int n = 0;
  for (auto const& level : levels_of<On>()) {
    CAPTURE(level);
    auto const key = "x" + std::to_string(n++);
    auto held = take(*m, key);
    auto const refused = [&](auto const& call) {
      try {
        call();
      } catch (error const& e) {
        CHECK(e.reason() == errc::invalid_argument);
        CHECK_FALSE(e.retryable());
        CHECK(std::string(e.what()).find("plain COMMIT") != std::string::npos);
        return true;
      }
      return false;
    };
    begin(f, *p, level);
    tx->done(held, kept);
    CHECK(refused([&] { tx->execute_commit(held); }));
    CHECK_FALSE(is_done(f, key));  // rolled back
    CHECK(held.valid());
    begin(f, *p, level);
    tx->done(held, kept);
    CHECK(refused([&] { tx->require(held); }));
    CHECK(refused([&] { tx->done(held, kept); }));
    p->commit();
    CHECK(is_done(f, key));
    // By another transaction it is done.
    begin(f, *p, level);
    CHECK(reason_of([&] { tx->require(held); }) == errc::lock_lost);
    p->run("ROLLBACK");
  }
}

TEST_CASE_TEMPLATE("C72: a done() that was rolled back to a savepoint keeps nothing from its transaction", On,
                   ROWLOCK_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  auto held = take(*m);
  begin(f, *p);
  p->run("SAVEPOINT here");
  tx->done(held, kept);
  p->run("ROLLBACK TO SAVEPOINT here");
  tx->require(held);
  tx->done(held, kept);
  p->commit();
  CHECK(is_done(f));
}

// One transaction, two ways to take one name: whatever comes second says so, and waits for nobody for long.
TEST_CASE_TEMPLATE("C72: what a transaction has inserted or locked it can't take in another way", On,
                   ROWLOCK_SERVER_HANDLES) {
  On f;
  auto const m = f.manager();
  auto const p = f.open();
  auto const tx = p->view(*m);
  begin(f, *p, "READ COMMITTED");  // an insert reads before lock() does
  REQUIRE(tx->insert("x", 30s));
  CHECK_FALSE(tx->insert("x", 30s));
  CHECK(reason_of([&] { tx->lock("x"); }) == errc::strategy_mismatch);
  CHECK(reason_of([&] { (void)tx->try_lock("x"); }) == errc::strategy_mismatch);
  tx->lock("y");
  tx->lock("y");
  CHECK(reason_of([&] { (void)tx->insert("y", 30s); }) == errc::strategy_mismatch);
  tx->admit("x", fencing_token{7});
  tx->admit("x", fencing_token{7});
  CHECK(reason_of([&] { tx->admit("x", fencing_token{6}); }) == errc::lock_lost);
  p->commit();
  CHECK(stranger(f).read("x")->holder.strategy == strategy::unique_insert);
}
