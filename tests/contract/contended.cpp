// A row, or an SQLite file, that a transaction has locked although nobody holds the lock.
#include <future>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Somebody's transaction that is in the way of whoever takes x, which nobody holds: it has the free row
/// locked, or is just inserting one.
class transaction_in_the_way {
 public:
  transaction_in_the_way(fixture& f, running_pair const& pair)
      : session_(f.source.implementation()->connect(soon())) {
    session_->script(begin_of(f), soon());
    auto const row = pair.locks_free_row()
                         ? std::string("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'x'")
                         : "INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES "
                           "('x', '" +
                               std::string(to_string(pair.strategy)) + "', 0, " + in_ms(f, 0) + ")";
    session_->script(f.tables().render(row), soon());
  }
  void end() { session_->script("ROLLBACK", soon()); }

 private:
  static boot_time_point soon() { return boot_clock::now() + 30s; }
  std::unique_ptr<backend::connection> session_;
};

}  // namespace

EVERY_CASE("C21: contended, after a moment: a transaction is in the way, and nobody holds the lock") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  // A free row for the lease; none for those strategies whose row or anchor is made by the take.
  if (pair.locks_free_row()) (void)x.acquire();
  transaction_in_the_way other(f, pair);
  auto const start = std::chrono::steady_clock::now();
  auto const once = x.try_acquire();
  auto const took = std::chrono::steady_clock::now() - start;
  CHECK(once.status() == acquire_status::contended);
  CHECK_FALSE(once.holder());
  CHECK(took >= 900ms);  // it was ridden out
  CHECK(took < 20s);
  CHECK(x.try_acquire_for(300ms).status() == acquire_status::contended);
  other.end();
  CHECK(x.try_acquire());
}

EVERY_CASE("C21: a transaction that ends within the moment does not keep try_acquire from the lock") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  if (pair.locks_free_row()) (void)x.acquire();
  m->connect();
  transaction_in_the_way other(f, pair);
  f.seam->reset();
  auto got = std::async(std::launch::async, [&] { return bool(x.try_acquire()); });
  CHECK(eventually([&] { return f.seam->executed_in_all() > 0; }));
  other.end();
  CHECK(got.get());
}

EVERY_CASE("C21: busy is what somebody holds, also while a transaction has its row locked") {
  stranger holder(f);
  REQUIRE(holder.take("x"));
  auto const in_the_way = f.source.implementation()->connect(boot_clock::now() + 30s);
  if (f.options.strategy != strategy::row_lock) {  // whose holder is such a transaction
    in_the_way->script(begin_of(f), boot_clock::now() + 30s);
    in_the_way->script(f.tables().render("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'x'"),
                       boot_clock::now() + 30s);
  }
  auto const m = f.manager();
  CHECK(m->make_mutex("x").try_acquire().status() == acquire_status::busy);
  CHECK(m->make_mutex("x").try_acquire_for(100ms).status() == acquire_status::timed_out);
}
