// The conditions of lock_waiters: whom people are told of, and whom not.
#include <future>
#include <optional>
#include <rowlock/postgresql.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "contract/conditions.hpp"
#include "contract/open_transaction.hpp"
#include "contract/waits.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

/// A session at the wait queue of a name, as that process.
class at_the_queue {
 public:
  at_the_queue(fixture& f, std::string name, std::string process)
      : f_(f), name_(std::move(name)), process_(std::move(process)), session_(f.connect()) {
    id_ = backend::as_int(
        session_
            ->execute({"id", dialect_of(f) == dialect::mysql ? "SELECT CAST(connection_id() AS SIGNED)"
                                                             : "SELECT pg_backend_pid()::bigint"},
                      {}, statements::soon())
            .rows.at(0)
            .at(0));
  }
  ~at_the_queue() { stop_.request_stop(); }
  at_the_queue(at_the_queue const&) = delete;
  at_the_queue& operator=(at_the_queue const&) = delete;

  backend::queue_entry enter() {
    return session_->enter_queue(f_.tables(), name_, process_, statements::soon(), 10s, stop_.get_token());
  }
  /// Behind somebody who has it.
  void line_up() {
    waits_ = std::async(std::launch::async, [this] {
      try {
        (void)enter();
      } catch (error const&) {  // it was stopped
      }
    });
  }
  std::int64_t id() const { return id_; }

 private:
  fixture& f_;
  std::string name_;
  std::string process_;
  std::unique_ptr<backend::connection> session_;
  std::int64_t id_ = 0;
  std::stop_source stop_;
  std::future<void> waits_;
};

using sessions_of = std::multiset<std::int64_t>;

sessions_of who_waits(statements& s, std::string const& name) {
  sessions_of found;
  for (auto const& columns : s.run("lock_waiters", {text("[\"" + name + "\"]")}).rows)
    if (columns.at(0) == text(name) && !backend::is_null(columns.at(1)))
      found.insert(backend::as_int(columns.at(1)));
  return found;
}

/// A permit of that process.
void put_permit_of(fixture& f, std::string const& name, std::string const& process) {
  f.sql(
      "INSERT INTO rowlock_permits (name, strategy, term, token, owner_process, expires_at, units, told) "
      "VALUES ('" +
      name + "', 'semaphore', 'of " + process + "', 1, '" + process + "', " + in_ms(f, 30'000) + ", 1, 10)");
}

}  // namespace

PAIRS_CASE("lock_waiters: who has a permit and waits for another one waits", direct_leases_on_servers) {
  statements s(f);
  put_name(f, "x", "semaphore");
  put_permit_of(f, "x", "p");
  at_the_queue first(f, "x", "q");
  REQUIRE(first.enter() == backend::queue_entry::was_free);
  CHECK(who_waits(s, "x") == sessions_of{first.id()});
  at_the_queue second(f, "x", "p");
  second.line_up();
  CHECK(eventually([&] { return who_waits(s, "x") == sessions_of{first.id(), second.id()}; }));
}

PAIRS_CASE("lock_waiters: who has got a permit keeps the wait queue; one of another name is no excuse",
           direct_leases_on_servers) {
  statements s(f);
  for (auto const* name : {"x", "y"}) put_name(f, name, "semaphore");
  put_permit_of(f, "x", "p");
  put_permit_of(f, "y", "q");
  {
    at_the_queue of_x(f, "x", "p");
    at_the_queue of_y(f, "y", "q");
    REQUIRE(of_x.enter() == backend::queue_entry::was_free);
    REQUIRE(of_y.enter() == backend::queue_entry::was_free);
    CHECK(who_waits(s, "x").empty());
    CHECK(who_waits(s, "y").empty());
  }
  at_the_queue of_x(f, "x", "q");  // which has a permit of y's
  REQUIRE(eventually([&] { return of_x.enter() == backend::queue_entry::was_free; }));
  CHECK(who_waits(s, "x") == sessions_of{of_x.id()});
  CHECK(who_waits(s, "y").empty());
}

PAIRS_CASE("lock_waiters: other locks by the same number are nobody's wait", leases_of_postgresql) {
  statements s(f);
  put_name(f, "x", "semaphore");
  std::string const queue = "hashtextextended('x', 'rowlock_locks'::regclass::oid::bigint)";
  statements another(f);
  auto const other_has = [&](std::string const& lock) {
    another.session->script(f.tables().render("SELECT pg_advisory_unlock_all(); SELECT " + lock),
                            statements::soon());
    return !who_waits(s, "x").empty();
  };
  CHECK(other_has("pg_advisory_lock(" + queue + ")"));
  CHECK_FALSE(other_has("pg_advisory_lock_shared(" + queue + ")"));
  CHECK_FALSE(other_has("pg_advisory_lock((" + queue + " >> 32)::int, ((" + queue + " << 32) >> 32)::int)"));
  // A copy of a database, made with CREATE DATABASE ... TEMPLATE, has tables with the same numbers.
  auto const key = number(f, "SELECT " + queue);
  std::string const copy = "b" + base::random_id().substr(0, 20);
  f.sql("CREATE DATABASE " + copy + " TEMPLATE template0");
  {
    auto const there = postgresql::source(postgresql_conninfo() + " dbname=" + copy)
                           .implementation()
                           ->connect(statements::soon());
    there->script("SELECT pg_advisory_lock(" + std::to_string(key) + ")", statements::soon());
    CHECK(number(f,
                 "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid "
                 "FROM pg_database WHERE datname = '" +
                     copy + "')") == 1);
    another.session->script("SELECT pg_advisory_unlock_all()", statements::soon());
    CHECK(who_waits(s, "x").empty());
  }
  f.sql("DROP DATABASE " + copy + " WITH (FORCE)");
}

PAIRS_CASE("lock_waiters: who waits for another row than an anchor's waits for no row lock",
           leases_of_postgresql) {
  statements s(f);
  put_name(f, "x", "lease");
  f.sql("UPDATE rowlock_locks SET term = 't'");
  statements waits(f);
  auto const shown_meanwhile = [&](std::string const& locked, std::string const& statement,
                                   std::vector<backend::value> const& with) {
    open_transaction others(f);
    others.run(locked);
    std::optional<std::size_t> shown;
    while_it_waits(
        f, *waits.session, [&] { waits.run(statement, with); },
        [&] {
          shown = who_waits(s, "x").size();
          others.commit();
        });
    return shown.value_or(99);
  };
  std::string const lock_x = "UPDATE rowlock_locks SET note = 'theirs' WHERE name = 'x'";
  CHECK(shown_meanwhile(lock_x, "lock_extend", {text("x"), text("t"), std::int64_t{60'000}}) == 0);
  f.sql("UPDATE rowlock_locks SET strategy = 'row_lock'");
  CHECK(shown_meanwhile(lock_x, "lock_set_note", {text("x"), text("t"), text("n")}) == 1);
  // A permit's, at the same place of its table.
  std::string term;
  auto const same_place = [&](int n) {
    term = "of " + std::to_string(n);
    f.sql(
        "INSERT INTO rowlock_permits (name, strategy, term, token, expires_at, units, told) VALUES ('x', "
        "'semaphore', '" +
        term + "', 1, clock_timestamp(), 1, 10)");
    return number(f,
                  "SELECT count(*) FROM rowlock_permits AS p JOIN rowlock_locks AS l ON l.ctid = p.ctid "
                  "WHERE l.name = 'x' AND p.term = '" +
                      term + "'") == 1;
  };
  int tries = 0;
  while (!same_place(tries)) REQUIRE(++tries < 1000);
  CHECK(shown_meanwhile("UPDATE rowlock_permits SET note = 'theirs' WHERE term = '" + term + "'",
                        "permits_lock_set_note", {text("x"), text(term), text("n")}) == 0);
}

PAIRS_CASE("lock_waiters: a statement that only names the wait queue is no wait", leases_of_mysql) {
  statements s(f);
  put_name(f, "x", "lease");
  f.sql("UPDATE rowlock_locks SET term = 't'");
  statements waits(f);
  backend::statement const names_it{
      "names_it", f.tables().render("SELECT name FROM rowlock_locks WHERE name = 'x' AND \"rowlock_locks', "
                                    "X'78'\" <> '' FOR UPDATE")};
  open_transaction others(f);
  others.run("UPDATE rowlock_locks SET note = 'theirs'");
  std::optional<sessions_of> shown;
  std::int64_t named = 0;
  while_it_waits(
      f, *waits.session, [&] { waits.session->execute(names_it, {}, statements::soon()); },
      [&] {
        named =
            number(f,
                   "SELECT count(*) FROM information_schema.processlist WHERE id <> connection_id() AND "
                   "db = database() AND locate(concat('locks`', char(39), ', X', char(39), '78'), info) > 0");
        shown = who_waits(s, "x");
        others.commit();
      });
  CHECK(named == 1);
  CHECK(shown == sessions_of{});
}
