// What only a server can have: others' transactions, roles, schemas, read-only servers.

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <future>
#include <mutex>
#include <rowlock/postgresql.hpp>
#include <thread>

#include "database.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

using backend::value;

// A role without any rights, dropped with what it owns.
class poor_role {
 public:
  poor_role() : name_(unique_identifier()) {
    admin_->script(fmt::format("CREATE ROLE {} LOGIN", name_), soon());
  }
  ~poor_role() { admin_->script(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", name_), soon()); }
  std::string const& name() const { return name_; }
  connection_source source(std::string const& schema) const {
    return with_toy(postgresql::source(
        fmt::format("{} user={} options='-c search_path={}'", postgresql_conninfo(), name_, schema)));
  }

 private:
  std::unique_ptr<backend::connection> admin_ =
      postgresql::source(postgresql_conninfo()).implementation()->connect(soon());
  std::string name_;
};

}  // namespace

TEST_CASE("a schema of its own is made, quoted, and used<postgresql>") {
  postgresql_database db;
  std::string const schema = db.schema() + "_Own";
  migrator m(db.source(), {.table_prefix = "p_", .schema = schema});
  CHECK(m.up() == every_up);
  CHECK(m.validate().empty());
  CHECK(db.query(fmt::format("SELECT count(*) FROM \"{}\".p_migrations", schema))[0][0] ==
        value{std::int64_t{toy_version}});
  CHECK(m.down(0) == every_down);
  CHECK(m.up() == every_up);  // the schema was still there
  db.script(fmt::format("DROP SCHEMA \"{}\" CASCADE", schema));
}

TEST_CASE("sql() with a schema makes it, and is adopted<postgresql>") {
  postgresql_database db;
  std::string const schema = db.schema() + "_own";
  migrator m(db.source(), {.schema = schema});
  db.script(m.sql(0, toy_version));
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
  db.script(fmt::format("DROP SCHEMA {} CASCADE", schema));
}

TEST_CASE("schemas that are no plain identifiers are refused<postgresql>") {
  postgresql_database db;
  for (auto const* bad : {"1a", "a-b", "a\"b", "a.b", "x; DROP TABLE y", "é"})
    CHECK(catch_error([&] { migrator(db.source(), {.schema = bad}); }).reason == errc::invalid_argument);
}

TEST_CASE("trap B27: new columns behind a guarded transaction do not block the other names<postgresql>") {
  postgresql_database db;
  migrator(db.source()).up(shipped_version);
  db.hold("busy");
  auto const other = db.connect();
  other->script("BEGIN; UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'busy'", soon());
  auto up = std::async(std::launch::async,
                       [&] { return catch_error([&] { migrator(db.source(), {.timeout = 10s}).up(); }); });
  auto const& dialect = db.source().implementation()->sql();
  backend::statement_book const book(dialect, backend::table_names::of(dialect, "", "rowlock_"));
  auto const c = db.connect();
  std::chrono::nanoseconds slowest{0};
  int takes = 0;
  while (up.wait_for(0s) != std::future_status::ready) {
    auto const before = boot_clock::now();
    std::vector<value> const free{fmt::format("n{}", takes++), "lease"};
    c->execute(book.at("lock_insert_free"), free, soon());
    slowest = std::max(slowest, boot_clock::now() - before);
  }
  CHECK(up.get().reason == errc::row_locked);
  MESSAGE(takes << " statements meanwhile, the slowest in " << slowest.count() / 1000 << " us");
  CHECK(takes > 100);
  CHECK(slowest < 7s);
  other->script("COMMIT", soon());
  CHECK(migrator(db.source()).up() == versions{toy_version});
}

TEST_CASE(
    "trap B27: down behind a guarded transaction does not block the acquires of all names<postgresql>") {
  postgresql_database db;
  migrator(db.source()).up();
  db.hold("busy");
  auto const other = db.connect();
  other->script(
      "SET application_name = 'slow job'; BEGIN; UPDATE rowlock_locks SET note = '' WHERE name = 'busy'",
      soon());
  auto down = std::async(std::launch::async, [&] {
    return catch_error([&] { migrator(db.source(), {.timeout = 10s}).down(0, true, true); });
  });
  backend::statement_book const book(db.source().implementation()->sql(), {});
  auto const c = db.connect();
  settle_for_takes(*c, book);
  std::vector<std::chrono::nanoseconds> took;
  int takes = 0;
  while (down.wait_for(0s) != std::future_status::ready) {
    auto const before = boot_clock::now();
    auto const name = fmt::format("n{}", takes++);
    c->execute(book.at("lock_insert_free"), std::vector<value>{name, "lease"}, soon());
    CHECK(c->execute(book.at("lock_take"), take_parameters(name), soon()).rows.size() == 1);
    took.push_back(boot_clock::now() - before);
  }
  auto const e = down.get();
  CHECK(e.reason == errc::row_locked);
  CHECK(e.mentions("gave up after 10000 ms"));
  CHECK(e.mentions("application 'slow job', idle in transaction"));
  std::ranges::sort(took);
  REQUIRE(takes > 20);
  MESSAGE(takes << " takes meanwhile, the slowest in " << took.back().count() / 1000 << " us");
  // Each of the two statements may wait for one try of the migrator's, a tenth of a second. The slowest half
  // may be a busy machine's.
  CHECK(took[took.size() / 2] < 600ms);
  CHECK(took.back() < 7s);
  other->script("COMMIT", soon());
  CHECK(migrator(db.source()).down(0, true, true) == every_down);
}

TEST_CASE("a lock that is taken while down looks is not overlooked<postgresql>") {
  postgresql_database db;
  migrator(db.source()).up();
  // A take whose transaction is open when down comes: down has to wait for it, and then sees the lock.
  auto const other = db.connect();
  other->script(
      "BEGIN; INSERT INTO rowlock_locks (name, strategy, term, token, expires_at) "
      "VALUES ('late', 'lease', 'x', 1, clock_timestamp() + interval '1 minute')",
      soon());
  std::promise<void> waiting;
  std::once_flag once;
  auto down = std::async(std::launch::async, [&] {
    migrator m(db.source(),
               {.progress = [&](std::string_view) { std::call_once(once, [&] { waiting.set_value(); }); }});
    return catch_error([&] { m.down(shipped_version); });
  });
  waiting.get_future().wait();
  other->script("COMMIT", soon());
  auto const e = down.get();
  CHECK(e.reason == errc::row_locked);
  CHECK(e.mentions("locks are held: 'late'"));
}

TEST_CASE("a migrator that waits for another says so, and gives up at its timeout<postgresql>") {
  postgresql_database db;
  auto const other = db.connect();
  other->script(
      fmt::format("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('rowlock migrate {} rowlock_', 0))",
                  db.schema()),
      soon());
  auto const e = catch_error([&] { migrator(db.source(), {.timeout = 3s}).up(); });
  CHECK(e.reason == errc::row_locked);
  CHECK(e.mentions("another process is migrating the same tables"));
  CHECK(e.mentions("in the way: server process"));
  other->script("ROLLBACK", soon());
  CHECK(migrator(db.source()).up() == every_up);
}

TEST_CASE("a connection that the server ends in the middle of a step is made again<postgresql>") {
  postgresql_database db;
  auto const killer = db.connect();
  std::atomic<bool> stop = false;
  std::atomic<int> killed = 0;
  std::jthread const terminate([&] {
    // Whoever has begun to write, at a random moment.
    backend::statement const kill{
        "kill",
        fmt::format(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
            "application_name = '{}' AND backend_xid IS NOT NULL AND random() < 0.01",
            db.schema())};
    // Not for ever: a long step on a busy machine would never come to its end.
    while (!stop && killed < 15) killed += static_cast<int>(killer->execute(kill, {}, soon()).rows.size());
  });
  auto const mortal = with_toy(postgresql::source(db.address() + " application_name=" + db.schema()));
  migrator m(mortal);
  for (int round = 0; round < 100 && killed < 15; ++round) {
    CHECK(m.up() == every_up);
    CHECK(migrator(db.source()).validate().empty());
    CHECK(m.down(0) == every_down);
  }
  stop = true;
  MESSAGE(killed.load() << " connections were ended");
  CHECK(killed > 0);
}

TEST_CASE("the schema by name or by search path: one migrator at a time all the same<postgresql>") {
  postgresql_database db;
  auto const other = db.connect();
  backend::statement_book const book(db.source().implementation()->sql(), {});
  other->script("BEGIN", soon());
  auto const entered = other->execute(book.at("migrate_enter"), std::vector<value>{"", "rowlock_"}, soon());
  CHECK(entered.rows[0][0] == value{std::int64_t{1}});
  auto const e = catch_error([&] { migrator(db.source(), {.schema = db.schema(), .timeout = 3s}).up(); });
  CHECK(e.mentions("another process is migrating the same tables"));
  // Other tables of the same schema don't wait.
  CHECK(migrator(db.source(), {.table_prefix = "x_", .timeout = 60s}).up() == every_up);
}

TEST_CASE("missing rights are said, with the way out<postgresql>") {
  postgresql_database db;
  poor_role const role;
  db.script(fmt::format("GRANT USAGE ON SCHEMA {} TO {}", db.schema(), role.name()));
  migrator m(role.source(db.schema()));
  auto const create = catch_error([&] { m.up(); });
  CHECK(create.reason == errc::access_denied);
  CHECK(create.mentions("CREATE"));
  CHECK(create.mentions("rowlock migrate sql"));

  migrator(db.source()).up(1);
  auto const read = catch_error([&] { m.status(); });
  CHECK(read.reason == errc::access_denied);
  db.script(fmt::format("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}", db.schema(), role.name()));
  CHECK(m.status()[0].applied);
  CHECK(catch_error([&] { m.up(); }).reason == errc::access_denied);

  // Nothing to do needs no rights but reading.
  migrator(db.source()).up();
  db.script(fmt::format("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}", db.schema(), role.name()));
  CHECK(m.up().empty());
  CHECK(m.validate().empty());
}

TEST_CASE("a schema that may not be made is said<postgresql>") {
  postgresql_database db;
  poor_role const role;
  auto const e =
      catch_error([&] { migrator(role.source(db.schema()), {.schema = db.schema() + "_new"}).up(); });
  CHECK(e.reason == errc::access_denied);
  CHECK(e.mentions("permission denied for database"));
}

TEST_CASE("a search path without any schema is said<postgresql>") {
  postgresql_database db;
  postgresql::source const lost(postgresql_conninfo() + " options='-c search_path=there_is_no_such_schema'");
  auto const e = catch_error([&] { migrator(lost).up(); });
  CHECK(e.mentions("say which one with --schema"));
  CHECK_FALSE(e.mentions("rowlock migrate validate"));
}

TEST_CASE("a read-only server is said, and is fine where nothing is to be done<postgresql>") {
  postgresql_database db;
  auto const read_only = with_toy(
      postgresql::source(fmt::format("{} options='-c search_path={} -c default_transaction_read_only=on'",
                                     postgresql_conninfo(), db.schema())));
  SUBCASE("up to date") {
    migrator(db.source()).up();
    CHECK(migrator(read_only).up().empty());
    CHECK(migrator(read_only).validate().empty());
  }
  SUBCASE("something to do") {
    migrator(db.source()).up(1);
    for (auto const& f : std::vector<std::function<void()>>{[&] { migrator(read_only).up(); },
                                                            [&] { migrator(read_only).down(0); }}) {
      auto const e = catch_error(f);
      CHECK(e.reason == errc::read_only);
      CHECK(e.mentions("on the primary server"));
    }
  }
}

TEST_CASE("no such server and no such database are said at once<postgresql>") {
  CHECK(catch_error([] {
          migrator(postgresql::source("host=127.0.0.1 port=1 dbname=x user=x password=secret1")).up();
        }).reason == errc::unreachable);
  auto const e =
      catch_error([] { migrator(postgresql::source(postgresql_conninfo() + " dbname=nowhere")).up(); });
  CHECK(e.reason == errc::schema_missing);
  CHECK(e.mentions("nowhere"));
}
