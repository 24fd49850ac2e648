// An owner whose guarded transactions follow each other without a gap, on a lock that has expired: others get
// their turn all the same.
#include <thread>

#include "guard/handles.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Guarded transactions: on servers there is always one that waits for the other's end, and if they could
/// overlap they would. On SQLite, where one at a time can be begun, a tenth of a second each and a
/// millisecond in between.
template <class On>
class owner_without_gaps {
 public:
  owner_without_gaps(On& f, lock_manager& m, held_lock const& held) {
    for (int i = 0; i < (On::sqlite ? 1 : 2); ++i)
      threads_.emplace_back([&](std::stop_token const& stop) {
        auto const p = f.open();
        auto const tx = p->view(m);
        while (!stop.stop_requested() && one_more(f, *p, *tx, held)) {
        }
      });
  }
  int committed() const { return committed_; }
  bool refused() const { return refused_ == threads_.size(); }

 private:
  bool one_more(On& f, program& p, basic_transaction& tx, held_lock const& held) {
    begin(f, p);
    if (reason_of([&] { tx.require(held); }) == errc::lock_lost) {
      p.run("ROLLBACK");
      ++refused_;
      return false;
    }
    auto const passed = ++passed_;
    try {
      p.run(f.set_counter(passed));
    } catch (refused_statement const&) {  // innodb_snapshot_isolation: begin again
      p.run("ROLLBACK");
      return true;
    }
    (void)eventually([&] { return passed_ > passed; }, On::sqlite ? 100ms : 5ms);
    p.commit();
    ++committed_;
    if (On::sqlite) std::this_thread::sleep_for(1ms);  // the gap
    return true;
  }

  std::atomic<int> passed_{0};
  std::atomic<int> committed_{0};
  std::atomic<unsigned> refused_{0};
  std::vector<std::jthread> threads_;
};

}  // namespace

// On servers a takeover waits in the line for the row. SQLite has no line for its file: whoever looks while
// it is free has it.
TEST_CASE_TEMPLATE("C10: a takeover gets its turn between guarded transactions without a gap", On,
                   ROWLOCK_HANDLES) {
  On f;
  f.make_counter();
  int in_between = 0;
  for (auto const how : {strategy::lease, strategy::unique_insert}) {
    f.options.strategy = how;
    auto const m = f.manager();
    for (int round = 0; round < 5; ++round) {
      auto const name = std::string(to_string(how)) + std::to_string(round);
      CAPTURE(name);
      auto const held = *m->make_mutex(name, {.ttl = 10min, .renew = false}).acquire();
      f.sql("UPDATE rowlock_locks SET expires_at = " + in_ms(f, -1000) + " WHERE name = '" + name + "'");
      child_process other({ROWLOCK_LOCK_TAKER, f.url(), f.options.schema, name, "30000", to_string(how)});
      other.write_line("connect");  // that takes time of its own
      REQUIRE(other.next_line(60s) == "connected");
      owner_without_gaps<On> owner(f, *m, held);
      REQUIRE(eventually([&] { return owner.committed() > 2; }));
      auto const before = owner.committed();
      other.write_line("take 30000");
      auto const answer = other.next_line(90s).value_or("no answer");
      REQUIRE(answer.starts_with("taken "));
      in_between += owner.committed() - before;
      CHECK(eventually([&] { return owner.refused(); }));
    }
  }
  CAPTURE(in_between);
  CHECK(in_between < (On::sqlite ? 400 : 1000));  // what a busy machine takes to send the take is part of it
}
