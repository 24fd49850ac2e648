// Version 2 comes and goes beside held locks, and validate knows its tables.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <rowlock/lock_manager.hpp>
#include <thread>

#include "database.hpp"
#include "strategy/quarantine.hpp"
#include "support/eventually.hpp"
#include "support/incarnation.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

constexpr int quarantine_version = 2;

backend::statement_book book_of(database const& db) {
  auto const& dialect = db.source().implementation()->sql();
  return {dialect, backend::table_names::of(dialect, "", "rowlock_")};
}

/// Takes as a program's first statement does, for 30 s. Settles nothing.
bool take(database const& db, std::string const& name) {
  auto const book = book_of(db);
  auto const c = db.connect();
  learn_incarnation(*c, book);
  c->execute(book.at("lock_insert_free"), std::vector<backend::value>{name, "lease"}, soon());
  return c->execute(book.at("lock_take"), take_parameters(name), soon()).affected == 1;
}

#define ROWLOCK_PULSING_DATABASES ::rowlock::test::postgresql_database, ROWLOCK_MYSQL_DATABASES

bool is_mysql(database const& db) { return db.kind() == "mysql"; }

/// A call of a function, or of a procedure with OUT parameters @t and @k.
std::string acquire(database const& db, std::string const& what, std::int64_t ttl_ms,
                    std::string const& arguments = "") {
  if (is_mysql(db))
    return fmt::format("CALL rowlock_try_acquire{}('{}'{}, {}, '', @t, @k);",
                       arguments.empty() ? "" : "_permit", what, arguments, ttl_ms);
  return fmt::format("SELECT * FROM rowlock_try_acquire{}('{}'{}, {} * interval '1 ms');",
                     arguments.empty() ? "" : "_permit", what, arguments, ttl_ms);
}

std::string now_of(database const& db) { return is_mysql(db) ? "utc_timestamp(6)" : "clock_timestamp()"; }

/// SQL without C++ that holds a lock, and renews it again and again.
class sql_holder {
 public:
  explicit sql_holder(database const& db) : mysql_(is_mysql(db)), connection_(db.connect()) {
    if (mysql_) connection_->script(acquire(db, "held", 30'000), soon());
    auto const taken =
        run(mysql_ ? "SELECT @t" : "SELECT t.term FROM rowlock_try_acquire('held', interval '30 s') AS t");
    REQUIRE(taken.size() == 1);
    auto const term = backend::as_text(taken[0][0]);
    renewer_ = std::jthread([this, term](std::stop_token stop) {
      while (!stop.stop_requested()) {
        bool const renewed = renew(term);
        ++(renewed ? renewals_ : losses_);
      }
    });
  }

  int losses() const { return losses_; }
  /// Whether there is another renewal from now on.
  bool renews_again() const {
    return eventually([this, before = renewals_.load()] { return renewals_ > before + 1; });
  }

 private:
  std::vector<backend::row> run(std::string const& sql) const {
    return connection_->execute({"holder", sql}, {}, soon()).rows;
  }
  bool renew(std::string const& term) const {
    if (!mysql_)
      return backend::as_int(run("SELECT rowlock_renew('held', '" + term + "')::int::bigint")[0][0]) == 1;
    connection_->script("CALL rowlock_renew('held', '" + term + "', @ok)", soon());
    return backend::as_int(
               connection_->execute({"ok", "SELECT CAST(@ok AS SIGNED)"}, {}, soon()).rows[0][0]) == 1;
  }

  bool const mysql_;
  std::unique_ptr<backend::connection> connection_;
  std::atomic<int> renewals_ = 0;
  std::atomic<int> losses_ = 0;
  std::jthread renewer_;
};

}  // namespace

TEST_CASE_TEMPLATE(
    "quarantine: up beside a held lease: its holder goes on, its ttl is known, and nothing "
    "pauses",
    DB, ROWLOCK_PULSING_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up(quarantine_version - 1);
  sql_holder const holder(db);
  CHECK(holder.renews_again());
  CHECK(m.up(quarantine_version) == versions{quarantine_version});
  CHECK(take(db, "other"));
  CHECK_FALSE(take(db, "held"));
  CHECK(number(db, "SELECT max(reach) FROM rowlock_pulse") == 30'000);
  CHECK(number(db, "SELECT count(*) FROM rowlock_pulse") == 1);
  CHECK(holder.renews_again());
  CHECK(holder.losses() == 0);
}

TEST_CASE_TEMPLATE(
    "quarantine: up: permits count for the reach, five minutes at most, and free rows of a ttl", DB,
    ROWLOCK_PULSING_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up(quarantine_version - 1);
  std::int64_t expected = 0;
  SUBCASE("nothing was granted so far") {}
  SUBCASE("a permit is held") {
    db.script(acquire(db, "p", 40'000, ", 1, 3"));
    expected = 40'000;
  }
  SUBCASE("a lease that was given back") {
    db.script(
        is_mysql(db)
            ? acquire(db, "x", 50'000) + "CALL rowlock_release('x', @t, @ok)"
            : "SELECT rowlock_release('x', t.term) FROM rowlock_try_acquire('x', interval '50 s') AS t");
    expected = 50'000;
  }
  SUBCASE("longer than five minutes") {
    db.script(acquire(db, "x", 86'400'000));
    expected = 300'000;
  }
  m.up(quarantine_version);
  if (!is_mysql(db)) CHECK(number(db, "SELECT coalesce(max(ttl), 0) FROM rowlock_reach") == expected);
  CHECK(number(db, "SELECT count(*) FROM rowlock_pulse") == 1);
  CHECK(number(db, "SELECT reach FROM rowlock_pulse WHERE safe_from <= " + now_of(db)) == expected);
}

TEST_CASE_TEMPLATE("quarantine: down beside a held lease: refused, and with --force its holder keeps it", DB,
                   ROWLOCK_PULSING_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up(quarantine_version);
  sql_holder const by_sql(db);
  lock_manager manager(db.source());
  auto mutex = manager.make_mutex("mine", {.ttl = 6s});
  auto lock = mutex.try_acquire();
  REQUIRE(lock);
  auto const renewals = [&] { return number(db, "SELECT renewals FROM rowlock_locks WHERE name = 'mine'"); };
  // A new session of this program is refused at version 1, so the renewer needs its own before.
  CHECK(eventually([&] { return renewals() > 0; }));
  auto const refused = catch_error([&] { m.down(quarantine_version - 1); });
  CHECK(refused.reason == errc::row_locked);
  CHECK(refused.mentions("'held', 'mine'"));
  CHECK(number(db, "SELECT count(*) FROM rowlock_pulse") > 0);

  CHECK(m.down(quarantine_version - 1, true) == versions{quarantine_version});
  auto const before = renewals();
  CHECK(eventually([&] { return renewals() > before + 1; }));  // two after down
  CHECK(lock->valid());
  CHECK(by_sql.renews_again());
  CHECK(by_sql.losses() == 0);

  // And up again beside both.
  CHECK(m.up(quarantine_version) == versions{quarantine_version});
  CHECK(number(db, "SELECT max(reach) FROM rowlock_pulse") == 30'000);
  CHECK(lock->valid());
  CHECK(lock->release() == release_result::released);
  CHECK(take(db, "mine"));
  CHECK(by_sql.losses() == 0);
}

TEST_CASE_TEMPLATE("quarantine: up and down beside takes come to an end, and the takes go on", DB,
                   ROWLOCK_PULSING_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up(quarantine_version);
  auto const book = book_of(db);
  settle_for_takes(*db.connect(), book);
  std::atomic<int> taken = 0;
  std::atomic<int> failed = 0;
  std::jthread const taker([&](std::stop_token stop) {
    auto const c = db.connect();
    for (int i = 0; !stop.stop_requested(); ++i) try {
        auto const name = fmt::format("n{}", i);
        c->execute(book.at("lock_insert_free"), std::vector<backend::value>{name, "lease"}, soon());
        auto const got = c->execute(book.at("lock_take"), take_parameters(name), soon()).affected;
        taken += static_cast<int>(got);
        if (got == 0) learn_incarnation(*c, book);  // as a manager does
      } catch (error const& e) {
        // Without the tables of version 2 nothing is granted.
        if (e.reason() != errc::schema_missing) ++failed;
      }
  });
  REQUIRE(eventually([&] { return taken > 0; }));  // so that up finds how long leases are
  for (int round = 0; round < 5; ++round) {
    CHECK(m.down(quarantine_version - 1, true) == versions{quarantine_version});
    CHECK(m.up(quarantine_version) == versions{quarantine_version});
    CHECK(eventually([&, before = taken.load()] { return taken > before + 10; }));
  }
  CHECK(failed == 0);
}

TEST_CASE(
    "quarantine: validate tells of each table and column of version 2, and up refuses them<postgresql>") {
  postgresql_database const db;
  migrator m(db.source());
  m.up();
  std::vector<std::string> expected;
  SUBCASE("no reach") {
    db.script("DROP TABLE rowlock_reach");
    expected = {"table rowlock_reach is missing"};
  }
  SUBCASE("no pulse") {
    db.script("DROP TABLE rowlock_pulse");
    expected = {"table rowlock_pulse is missing"};
  }
  SUBCASE("no setting") {
    db.script("DROP TABLE rowlock_quarantine");
    expected = {"table rowlock_quarantine is missing"};
  }
  SUBCASE("a setting that a crash would empty") {
    db.script("ALTER TABLE rowlock_quarantine SET UNLOGGED");
    expected = {
        "column rowlock_quarantine.id is 'integer not null primary key in an unlogged table' and should be "
        "'integer "
        "not null primary key'"};
  }
  SUBCASE("a column is missing") {
    db.script("ALTER TABLE rowlock_pulse DROP COLUMN base");
    expected = {"column rowlock_pulse.base (bigint not null) is missing"};
  }
  SUBCASE("a column differs") {
    db.script("ALTER TABLE rowlock_reach ALTER COLUMN ttl TYPE integer");
    expected = {"column rowlock_reach.ttl is 'integer not null' and should be 'bigint not null'"};
  }
  SUBCASE("a column too many") {
    db.script("ALTER TABLE rowlock_pulse ADD COLUMN mine integer");
    expected = {"column rowlock_pulse.mine (integer) is not part of version 3"};
  }
  SUBCASE("pulses that a standby would have, too") {
    db.script("ALTER TABLE rowlock_pulse SET LOGGED");
    expected = {
        "column rowlock_pulse.safe_from is 'timestamp with time zone not null' and should be 'timestamp with "
        "time zone not null in an unlogged table'"};
  }
  SUBCASE("a reach that a crash would empty") {
    db.script("ALTER TABLE rowlock_reach SET UNLOGGED");
    expected = {
        "column rowlock_reach.ttl is 'bigint not null in an unlogged table' and should be 'bigint not null'"};
  }
  SUBCASE("both, though the version is the first") {
    m.down(quarantine_version - 1);
    db.apply_raw(quarantine_version, "up");
    db.script("UPDATE rowlock_meta SET schema_version = 1");
    expected = {"table rowlock_reach is not part of version 1",
                "table rowlock_pulse is not part of version 1",
                "table rowlock_quarantine is not part of version 1"};
  }
  auto const lines = m.validate();
  for (auto const& line : expected) CHECK(std::ranges::count(lines, line) == 1);
  for (auto const& f :
       std::vector<std::function<void()>>{[&] { m.up(); }, [&] { m.down(0); }, [&] { m.repair(); }}) {
    auto const e = catch_error(f);
    CHECK(e.reason == errc::schema_missing);
    CHECK(e.mentions(expected[0]));
  }
}

TEST_CASE_TEMPLATE("quarantine: validate tells of what is missing of version 2", DB,
                   ROWLOCK_MYSQL_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up();
  std::string expected;
  SUBCASE("no pulse") {
    db.script("DROP TABLE rowlock_pulse");
    expected = "table rowlock_pulse is missing";
  }
  SUBCASE("no setting") {
    db.script("DROP TABLE rowlock_quarantine");
    expected = "table rowlock_quarantine is missing";
  }
  SUBCASE("a column is missing") {
    db.script("ALTER TABLE rowlock_pulse DROP COLUMN base");
    expected = "column rowlock_pulse.base (bigint not null) is missing";
  }
  SUBCASE("an engine that forgets") {
    db.script("ALTER TABLE rowlock_pulse ENGINE = MyISAM");
    expected = "column rowlock_pulse.base is 'bigint not null in MyISAM' and should be 'bigint not null'";
  }
  auto const lines = m.validate();
  CHECK(std::ranges::count(lines, expected) == 1);
  CHECK(catch_error([&] { m.up(); }).reason == errc::schema_missing);
}

TEST_CASE_TEMPLATE("quarantine: up once more, by the text, undoes no quarantine", DB,
                   ROWLOCK_MYSQL_DATABASES) {
  DB const db;
  migrator m(db.source());
  m.up(quarantine_version);
  db.script("UPDATE rowlock_pulse SET made_by = made_by + 1");
  auto const book = book_of(db);
  CHECK(strategies::settle_quarantine(*db.connect(), book, 1s, soon()).left > 0ms);
  CHECK(number(db, "SELECT count(*) FROM rowlock_pulse") == 3);
  db.apply_raw(quarantine_version, "up");
  CHECK(number(db, "SELECT count(*) FROM rowlock_pulse") == 3);
  CHECK_FALSE(take(db, "x"));
}
