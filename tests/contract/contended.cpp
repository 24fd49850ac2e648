// A row, or an SQLite file, that a transaction has locked although nobody holds the lock.
#include <future>
#include <vector>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// Somebody's transaction that is in the way of whoever takes one of these names, which nobody holds: it has
/// the free row locked, or is just inserting one.
class transaction_in_the_way {
 public:
  transaction_in_the_way(fixture& f, running_pair const& pair, std::vector<std::string> const& names = {"x"})
      : session_(f.connect()) {
    session_->script(begin_of(f), soon());
    for (auto const& name : names) {
      auto const row = pair.locks_free_row()
                           ? "UPDATE rowlock_locks SET note = 'locked' WHERE name = '" + name + "'"
                           : "INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ('" +
                                 name + "', '" + std::string(to_string(pair.strategy)) + "', 0, " +
                                 in_ms(f, 0) + ")";
      session_->script(f.tables().render(row), soon());
    }
  }
  void end() { session_->script("ROLLBACK", soon()); }

 private:
  static boot_time_point soon() { return boot_clock::now() + 30s; }
  std::unique_ptr<backend::connection> session_;
};

std::vector<std::string> fourteen_names() {
  std::vector<std::string> names;
  for (char c = 'a'; c < 'a' + 14; ++c) names.emplace_back(1, c);
  return names;
}

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
  f.probe->reset();
  auto got = std::async(std::launch::async, [&] { return bool(x.try_acquire()); });
  CHECK(eventually([&] { return f.probe->executed_in_all() > 0; }));
  other.end();
  CHECK(got.get());
}

EVERY_CASE("C21: busy is what somebody holds, also while a transaction has its row locked") {
  stranger holder(f);
  REQUIRE(holder.take("x"));
  auto const in_the_way = f.connect();
  if (f.options.strategy != strategy::row_lock) {  // whose holder is such a transaction
    in_the_way->script(begin_of(f), boot_clock::now() + 30s);
    in_the_way->script(f.tables().render("UPDATE rowlock_locks SET note = 'locked' WHERE name = 'x'"),
                       boot_clock::now() + 30s);
  }
  auto const m = f.manager();
  CHECK(m->make_mutex("x").try_acquire().status() == acquire_status::busy);
  CHECK(m->make_mutex("x").try_acquire_for(100ms).status() == acquire_status::timed_out);
}

EVERY_CASE("C85: contended, too, for threads that wait for the one connection while it waits for rows") {
  auto const names = fourteen_names();
  auto o = f.options;
  o.connections = 1;
  o.reply_timeout = 5s;
  auto const m = f.manager(o);
  m->connect();
  if (pair.locks_free_row())
    for (auto const& name : names) (void)m->make_mutex(name).acquire();
  transaction_in_the_way other(f, pair, names);
  f.probe->reset();
  std::vector<std::future<acquire_status>> all;
  for (auto const& name : names)
    all.push_back(std::async(std::launch::async, [&] { return m->make_mutex(name).try_acquire().status(); }));
  for (auto& one : all) CHECK(one.get() == acquire_status::contended);
  // Where all wait for one file, one of them does so for all. Dispatched calls wait for one worker anyway.
  if (dialect_of(f) == dialect::sqlite && !f.dispatched())
    CHECK(f.probe->executed("lock_take") + f.probe->executed("begin") < static_cast<int>(names.size()));
  other.end();
  CHECK(m->make_mutex(names.front()).try_acquire());
}

PAIRS_TEMPLATE_CASE("C85: file: locks that are given back while a transaction has it are handed over", pair,
                    all<in_rows, on_sqlite>) {
  pair f;
  auto o = f.options;
  o.release_timeout = 5s;
  lock_manager m(f.source, o);
  std::vector<acquisition> held;
  for (auto const& name : fourteen_names()) held.push_back(m.make_mutex(name, {.ttl = 600s}).acquire());
  auto const other = f.connect();
  other->script("BEGIN IMMEDIATE", boot_clock::now() + 60s);
  std::vector<std::future<release_result>> all;
  for (auto& one : held) all.push_back(std::async(std::launch::async, [&] { return one->release(); }));
  for (auto& one : all) CHECK(one.get() == release_result::handed_over);
  other->script("ROLLBACK", boot_clock::now() + 60s);
  CHECK(eventually([&] { return stranger(f).sees_free("a") && stranger(f).sees_free("n"); }));
}
