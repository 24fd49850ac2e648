// PostgreSQL by way of PgBouncer in transaction mode. [C19]

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <libpq-fe.h>

#include <memory>
#include <rowlock/postgresql.hpp>
#include <rowlock/postgresql_transaction.hpp>
#include <rowlock/rowlock.hpp>
#include <thread>

#include "backend/database.hpp"
#include "support/pgbouncer.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;
using backend::as_int;

struct finish_neighbour {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};

/// Another program that uses the same pool.
class neighbour {
 public:
  explicit neighbour(std::string const& conninfo) : native_(PQconnectdb(conninfo.c_str())) {
    REQUIRE_MESSAGE(PQstatus(native_.get()) == CONNECTION_OK, PQerrorMessage(native_.get()));
  }
  /// All that the server answers, as text.
  std::string run(std::string const& sql) {
    std::unique_ptr<PGresult, decltype(&PQclear)> const r(PQexec(native_.get(), sql.c_str()), &PQclear);
    CHECK_MESSAGE((PQresultStatus(r.get()) == PGRES_TUPLES_OK || PQresultStatus(r.get()) == PGRES_COMMAND_OK),
                  PQerrorMessage(native_.get()));
    std::string all;
    for (int i = 0; i < PQntuples(r.get()); ++i)
      for (int j = 0; j < PQnfields(r.get()); ++j) all += fmt::format("{} ", PQgetvalue(r.get(), i, j));
    return all;
  }
  /// What a program may have to put up with if others leave something behind.
  std::string surroundings() {
    // (PgBouncer itself leaves the application's name, if the next one has none.)
    return run("SELECT name, setting FROM pg_settings WHERE name NOT IN ('transaction_isolation', "
               "'application_name')"
               " ORDER BY 1") +
           run("SELECT count(*) FROM pg_prepared_statements") + run("SELECT current_schemas(true)") +
           run("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()");
  }
  PGconn* native() const noexcept { return native_.get(); }

 private:
  std::unique_ptr<PGconn, finish_neighbour> native_;
};

struct pooled_database {
  explicit pooled_database(int sessions)
      : between(postgresql_conninfo(), "transaction", fmt::format("default_pool_size = {}", sessions)) {
    options.schema = db->tables().schema;
  }
  std::unique_ptr<backend::connection> connect() const {
    return source().implementation()->connect(in(20'000));
  }
  postgresql::source source() const { return postgresql::source(between.address()); }
  backend::statement on_table(std::string const& name, std::string const& sql) const {
    return {name, db->tables().render(sql)};
  }

  std::unique_ptr<database> db = make_database(kind::postgresql);
  pgbouncer between;
  manager_options options;
};

}  // namespace

TEST_CASE(
    "C19: a connection string says how a pooler between lends out sessions, and what is flushed "
    "<postgresql>") {
  for (std::string const good :
       {"host=127.0.0.1 pooler=session dbname=d", "pooler=transaction", "port=1 pooler=session",
        "application_name='a pooler=none b' host=127.0.0.1", "postgresql://127.0.0.1/d?pooler=session",
        "postgresql://127.0.0.1/d?pooler=session&connect_timeout=2",
        "postgresql://127.0.0.1/d?connect_timeout=2&pooler=transaction",
        "host=127.0.0.1 flush=off pooler=session", "postgresql://127.0.0.1/d?flush=on&connect_timeout=2",
        "postgresql://127.0.0.1/d?pooler=session&flush=off",
        "postgresql://127.0.0.1/d?flush=off&pooler=session"}) {
    CAPTURE(good);
    CHECK_NOTHROW((void)postgresql::source(good));
  }
  for (std::string const bad : {"pooler=none", "host=a pooler=", "postgresql://127.0.0.1/d?pooler=",
                                "host=a flush=no", "postgresql://a/d?flush=&pooler=session"}) {
    CAPTURE(bad);
    CHECK(thrown_by([&] { (void)postgresql::source(bad); }).reason() == errc::invalid_argument);
  }
}

TEST_CASE(
    "D3, C19: locks, lists and reaps by way of a pooler leave nothing in the server's one session "
    "<postgresql>") {
  pooled_database const p(1);
  neighbour other(p.between.address());
  auto const before = other.surroundings();
  {
    lock_manager m(p.source(), p.options);
    for (auto const how : {strategy::lease, strategy::unique_insert}) {
      auto mutex = m.make_mutex(to_string(how), {.strategy = how});
      fencing_token last{};
      for (int round = 0; round < 3; ++round) {
        auto held = mutex.try_acquire();
        REQUIRE(held);
        CHECK(held->token().value > last.value);
        last = held->token();
        CHECK(held->extend(1min));
        CHECK(other.surroundings() == before);
        CHECK(m.list().size() == 1);
      }
    }
    CHECK(m.list().empty());
  }
  CHECK_NOTHROW((void)reaper(p.source(), {.schema = p.options.schema, .idle = 0ms}).run());
  migrator m(p.source(), {.schema = p.options.schema});
  CHECK(m.status().size() == static_cast<std::size_t>(m.latest()));
  CHECK(other.surroundings() == before);
}

TEST_CASE("C19: require by way of a pooler: the guarded commit, and a lost lock <postgresql>") {
  pooled_database const p(5);
  lock_manager m(p.source(), p.options);
  neighbour program(p.between.address());
  auto held = m.make_mutex("x").try_acquire();
  REQUIRE(held);
  program.run("BEGIN");
  postgresql::transaction(m, program.native()).require(*held);
  CHECK_NOTHROW(postgresql::execute_commit(program.native()));
  REQUIRE(m.revoke("x", revoke_mode::now));
  program.run("BEGIN");
  CHECK(thrown_by([&] { postgresql::transaction(m, program.native()).require(*held); }).reason() ==
        errc::lock_lost);
  program.run("ROLLBACK");
}

TEST_CASE(
    "C19: behind a pooler a row_lock is refused, and it is said why; in the program's transaction it works "
    "<postgresql>") {
  pooled_database const p(5);
  lock_manager m(p.source(), p.options);
  auto const refused =
      thrown_by([&] { (void)m.make_mutex("x", {.strategy = strategy::row_lock}).try_acquire(); });
  CHECK(refused.reason() == errc::unsupported);
  CHECK(says(refused, "pooler=session"));
  neighbour program(p.between.address());
  program.run("BEGIN");
  CHECK_NOTHROW(postgresql::transaction(m, program.native()).lock("y"));
  program.run("COMMIT");
}

TEST_CASE(
    "C19: by way of a pooler a statement that fails, or whose COMMIT does, has done nothing, and the next "
    "one works <postgresql>") {
  pooled_database const p(1);
  auto const c = p.connect();
  auto const count = p.on_table("count", "SELECT count(*) FROM rowlock_locks");
  auto const add = p.on_table("add",
                              "INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ($1, "
                              "'lease', 0, clock_timestamp())");
  auto const rows = [&] { return as_int(c->execute(count, {}, in(20'000)).rows.at(0).at(0)); };
  CHECK(c->execute(add, with("a"), in(20'000)).affected == 1);
  CHECK(thrown_by([&] { c->execute(add, with("a"), in(20'000)); }).sqlstate() == "23505");
  CHECK(c->usable());
  CHECK(rows() == 1);
  // Refused by COMMIT alone.
  auto const more = p.options.schema + ".more";
  c->script("CREATE TABLE " + more + " (name text REFERENCES " + p.options.schema +
                ".rowlock_admitted DEFERRABLE INITIALLY DEFERRED)",
            in(20'000));
  CHECK(thrown_by([&] {
          c->execute({"late", "INSERT INTO " + more + " VALUES ('nobody')"}, {}, in(20'000));
        }).sqlstate() == "23503");
  CHECK(as_int(c->execute({"late_count", "SELECT count(*) FROM " + more}, {}, in(20'000)).rows.at(0).at(0)) ==
        0);
  // Several statements in one transaction.
  c->script("BEGIN", in(20'000));
  CHECK(c->execute(add, with("b"), in(20'000)).affected == 1);
  CHECK_THROWS_AS(c->execute(add, with("b"), in(20'000)), error);
  CHECK(thrown_by([&] { c->script("COMMIT", in(20'000)); }).reason() == errc::conflict);
  CHECK(rows() == 1);
  c->script("BEGIN", in(20'000));
  CHECK(c->execute(add, with("b"), in(20'000)).affected == 1);
  c->script("COMMIT", in(20'000));
  CHECK(rows() == 2);
}

TEST_CASE("C19: by way of a pooler a reply that does not come in time, or ever, is in doubt <postgresql>") {
  pooled_database p(2);
  neighbour holder(postgresql_conninfo());
  auto const locks = p.options.schema + ".rowlock_locks";
  holder.run("BEGIN; LOCK TABLE " + locks);
  auto c = p.connect();
  auto const count = p.on_table("count", "SELECT count(*) FROM rowlock_locks");
  // lock_timeout went along with the transaction.
  CHECK(thrown_by([&] { c->execute(count, {}, in(20'000)); }).reason() == errc::row_locked);
  CHECK(c->usable());
  CHECK(thrown_by([&] { c->execute(count, {}, in(700)); }).reason() == errc::in_doubt);
  CHECK_FALSE(c->usable());
  c = p.connect();
  {
    std::jthread const ends([&](std::stop_token const& stop) {
      neighbour watch(postgresql_conninfo());
      while (!stop.stop_requested())
        watch.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query "
            "LIKE '%" +
            p.options.schema + "%'");
    });
    auto e = thrown_by([&] { c->execute(count, {}, in(20'000)); });
    // It may have waited for its second before it was seen.
    for (auto const until = in(20'000); e.reason() == errc::row_locked && boot_clock::now() < until;)
      e = thrown_by([&] { c->execute(count, {}, in(20'000)); });
    CHECK(e.reason() == errc::in_doubt);
  }
  CHECK_FALSE(c->usable());
  holder.run("COMMIT");
  CHECK(as_int(p.connect()->execute(count, {}, in(20'000)).rows.at(0).at(0)) == 0);
}

TEST_CASE(
    "C19: a session that another program has left read-only is said to be possibly that, and no more "
    "<postgresql>") {
  pooled_database const p(1);
  neighbour other(p.between.address());
  auto const c = p.connect();
  auto const add = p.on_table("add",
                              "INSERT INTO rowlock_locks (name, strategy, token, expires_at) VALUES ($1, "
                              "'lease', 0, clock_timestamp())");
  other.run("SET default_transaction_read_only = on");
  auto const refused = thrown_by([&] { c->execute(add, with("a"), in(20'000)); });
  CHECK(refused.reason() == errc::read_only);
  CHECK(refused.sqlstate() == "25006");
  CHECK(says(refused, "another program has left default_transaction_read_only"));
  other.run("SET default_transaction_read_only = off");
  CHECK_FALSE(c->usable());
  CHECK(p.connect()->execute(add, with("a"), in(20'000)).affected == 1);
}

TEST_CASE(
    "C19: the tables' schema is the role's, whatever another program has left in the session <postgresql>") {
  auto const db = make_database(kind::postgresql);
  auto const name = unique_identifier();
  auto const& schema = db->tables().schema;
  neighbour admin(postgresql_conninfo());
  admin.run(fmt::format(
      "CREATE ROLE {0} LOGIN; GRANT USAGE ON SCHEMA {1} TO {0}; GRANT ALL ON ALL TABLES IN SCHEMA {1} TO {0};"
      " ALTER ROLE {0} SET search_path = {1}",
      name, schema));
  {
    pgbouncer const between(conninfo_with({{"user", name}}), "transaction", "default_pool_size = 1");
    neighbour other(between.address());
    other.run(
        "SET search_path = pg_temp; SET lock_timeout = 77; SET default_transaction_isolation = serializable");
    auto const before = other.surroundings();
    lock_manager m(postgresql::source{between.address()});
    CHECK(m.make_mutex("x").try_acquire());
    CHECK(other.surroundings() == before);
  }
  admin.run(fmt::format("DROP OWNED BY {0}; DROP ROLE {0}", name));
}

}  // namespace rowlock::test
