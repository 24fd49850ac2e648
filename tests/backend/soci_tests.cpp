// What is SOCI's own: the pool, its sessions before and after us, and the server's faults on the way.

#include <doctest/doctest.h>
#include <soci/mysql/soci-mysql.h>
#include <soci/soci.h>

#include <atomic>
#include <chrono>
#include <map>
#include <rowlock/lock_manager.hpp>
#include <rowlock/migrator.hpp>
#include <rowlock/soci.hpp>
#include <rowlock/sqlite.hpp>
#include <thread>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/soci/connect_string.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"
#include "support/soci_pool.hpp"

namespace rowlock::test {
namespace {

using namespace std::chrono_literals;

manager_options options_for(database& db) {
  manager_options o;
  o.schema = db.tables().schema;
  return o;
}

/// A session of the pool's, for this program.
struct lease {
  explicit lease(::soci::connection_pool& p) : pool(p) {
    REQUIRE_MESSAGE(pool.try_lease(position, 5000), "nothing was given back");
  }
  ~lease() { pool.give_back(position); }
  lease(lease const&) = delete;
  lease& operator=(lease const&) = delete;
  ::soci::session& operator*() const { return pool.at(position); }
  ::soci::connection_pool& pool;
  std::size_t position = 0;
};

int one(::soci::session& s) {
  int n = 0;
  s << "SELECT 1", ::soci::into(n);
  return n;
}

/// What one session may have differently from another.
std::map<std::string, std::string> settings(::soci::session& s) {
  std::map<std::string, std::string> out;
  if (s.get_backend_name() == "sqlite3") {
    for (char const* name : {"busy_timeout", "cache_size", "synchronous", "foreign_keys"}) {
      int n = 0;
      s << std::string("PRAGMA ") + name, ::soci::into(n);
      out[name] = std::to_string(n);
    }
    return out;
  }
  bool const mysql = s.get_backend_name() == "mysql";
  ::soci::rowset<::soci::row> const rows =
      (s.prepare << (mysql ? "SHOW SESSION VARIABLES"
                           : "SELECT name, coalesce(setting, '') FROM pg_settings"));
  for (auto const& r : rows) out[r.get<std::string>(0)] = r.get<std::string>(1);
  // Of no session's making.
  for (char const* name : {"timestamp", "pseudo_thread_id", "rand_seed1", "rand_seed2", "last_gtid",
                           "innodb_buffer_pool_load_incremental", "statement_id"})
    out.erase(name);
  return out;
}

void check_same(std::map<std::string, std::string> const& before,
                std::map<std::string, std::string> const& after) {
  CHECK(before.size() == after.size());
  for (auto const& one : after) {
    CAPTURE(one.first);
    auto const found = before.find(one.first);
    CHECK((found == before.end() ? "none" : found->second) == one.second);
  }
}

std::string prepared_statements(::soci::session& s) {
  std::string n = "0";
  if (s.get_backend_name() == "postgresql")
    s << "SELECT count(*)::text FROM pg_prepared_statements WHERE name ~ 'lock|meta'", ::soci::into(n);
  return n;
}

/// A pool on a migrated database.
struct scene {
  explicit scene(kind k, int sessions)
      : db(make_database(plain(k))), pool(make_soci_pool(db->url(), sessions)), options(options_for(*db)) {}
  std::unique_ptr<lock_manager> manager() {
    return std::make_unique<lock_manager>(soci::source(*pool), options);
  }
  std::unique_ptr<database> db;
  std::shared_ptr<::soci::connection_pool> pool;
  manager_options options;
};

std::string what_of(error const& e) { return e.what(); }

bool contains(std::string const& text, std::string_view part) { return text.find(part) != text.npos; }

/// Until the keeper, too, has had a session.
void wait_for_renewal(held_lock const& lock) {
  auto const trust = *lock.trusted_until();
  REQUIRE(eventually([&] { return *lock.trusted_until() > trust; }));
}

}  // namespace

TEST_CASE_TEMPLATE("soci: sessions come back as they were, with none of our settings", On, ROWLOCK_SOCIS) {
  scene s(On::kind, 3);
  std::map<std::string, std::string> before;
  {
    lease const l(*s.pool);
    before = settings(*l);
  }
  REQUIRE(before.size() >= 4);
  {
    auto const m = s.manager();
    auto const held = m->make_mutex("x", {.ttl = 6s}).try_acquire();
    REQUIRE(held);
    wait_for_renewal(*held);
    CHECK(m->make_mutex("y").try_acquire());
  }
  std::vector<std::unique_ptr<lease>> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(std::make_unique<lease>(*s.pool));
    auto& session = **all.back();
    CHECK(one(session) == 1);
    check_same(before, settings(session));
    CHECK(prepared_statements(session) == "0");
    // What somebody manages to inject is one statement at most.
    if (is_mysql(On::kind)) CHECK_THROWS_AS(session << "SELECT 1; SELECT 2", ::soci::soci_error);
    ::soci::transaction tx(session);  // also not in one
    CHECK(one(session) == 1);
    tx.rollback();
  }
}

TEST_CASE_TEMPLATE("soci: what SOCI's own options say holds before and after, and not for us", On,
                   ROWLOCK_SOCI_MYSQLS) {
  auto const db = make_database(plain(On::kind));
  ::soci::connection_pool pool(1);
  pool.at(0).open(::soci::mysql,
                  soci_connect_string(db->url()) + " charset=latin1 read_timeout=20 reconnect=1");
  auto const before = settings(pool.at(0));
  CHECK(before.at("character_set_client") == "latin1");
  std::string const name = "j\xc3\xb6 \xf0\x9f\x98\x80";
  {
    lock_manager m(soci::source(pool), options_for(*db));
    auto const held = m.make_mutex(name).try_acquire();
    REQUIRE(held);
    CHECK(db->connect()->execute(db->book().at("lock_read"), with(name), in(20'000)).rows.size() == 1);
  }
  lease const l(pool);
  check_same(before, settings(*l));
  // Longer than the two seconds in which the session was connected: its own limits hold.
  int interrupted = 1;
  *l << "SELECT sleep(3)", ::soci::into(interrupted);
  CHECK(interrupted == 0);
  // As reconnect=1 promises.
  std::string id;
  *l << "SELECT connection_id()", ::soci::into(id);
  db->connect()->script("KILL " + id, in(20'000));
  CHECK(eventually([&] {
    try {
      return one(*l) == 1;
    } catch (::soci::soci_error const&) {
      return false;
    }
  }));
}

TEST_CASE_TEMPLATE("soci: a program's USE leads neither us to another database, nor itself after us", On,
                   ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 2);
  auto const other = make_database(plain(On::kind));  // with tables of the same names
  auto const name_of = [](database& db) {
    return backend::as_text(
        db.connect()->execute({"name", "SELECT database()"}, {}, in(20'000)).rows.at(0).at(0));
  };
  auto const rows_in = [](database& db) {
    return db.connect()->execute(db.book().at("lock_read"), with("x"), in(20'000)).rows.size();
  };
  for (std::size_t i = 0; i < 2; ++i) s.pool->at(i) << "USE " + name_of(*other);
  {
    auto const m = s.manager();
    auto const held = m->make_mutex("x", {.ttl = 6s}).try_acquire();
    REQUIRE(held);
    wait_for_renewal(*held);
    CHECK(rows_in(*s.db) == 1);
    CHECK(rows_in(*other) == 0);
  }
  lease const a(*s.pool);
  lease const b(*s.pool);
  for (auto const* l : {&a, &b}) {
    std::string where;
    **l << "SELECT database()", ::soci::into(where);
    CHECK(where == name_of(*s.db));
  }
}

TEST_CASE_TEMPLATE("soci: what the program's session may do and ours may not, it may again behind us", On,
                   ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 1);
  auto const may_send_files = [&] {
    unsigned on = 0;
    auto* const c = static_cast<::soci::mysql_session_backend&>(*s.pool->at(0).get_backend()).conn_;
    CHECK(::mysql_get_option(c, MYSQL_OPT_LOCAL_INFILE, &on) == 0);
    return on;
  };
  auto const before = may_send_files();
  {
    auto const m = s.manager();
    CHECK(m->make_mutex("x").try_acquire());
    CHECK(may_send_files() == 0);
  }
  lease const l(*s.pool);
  CHECK(may_send_files() == before);
  std::string large;
  *l << "SELECT repeat('x', 5000000)", ::soci::into(large);
  CHECK(large.size() == 5'000'000);
}

TEST_CASE("soci: the database that a connect string for mysql names") {
  using backend::soci::mysql_database_in;
  CHECK(mysql_database_in("user=u password=p host=h port=3306 db=app") == "app");
  CHECK(mysql_database_in("  dbname = app\tuser=u") == "app");
  CHECK(mysql_database_in("password='x db=no' service='it\\'s mine' user=u") == "it's mine");
  CHECK(mysql_database_in("password=a\\ db=no db=yes") == "yes");
  CHECK(mysql_database_in("db='' user=u") == "");
  CHECK_FALSE(mysql_database_in("user=u mydb=x"));
  CHECK_FALSE(mysql_database_in(""));
  CHECK_FALSE(mysql_database_in("db"));
}

TEST_CASE_TEMPLATE("soci: the connections that a pool leads to are no more than its sessions", On,
                   ::rowlock::test::on_soci_postgresql, ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 3);
  lease const l(*s.pool);
  auto const connections = [&] {
    int n = 0;
    if (is_mysql(On::kind))
      *l << "SELECT count(*) FROM information_schema.processlist WHERE db = database()", ::soci::into(n);
    else
      *l << "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%" + s.db->tables().schema + "%'",
          ::soci::into(n);
    return n;
  };
  auto const m = s.manager();
  auto const held = m->make_mutex("x", {.ttl = 6s}).try_acquire();
  REQUIRE(held);
  wait_for_renewal(*held);
  CHECK(connections() <= 3);
  if (is_mysql(On::kind)) CHECK(connections() == 3);
}

TEST_CASE_TEMPLATE("soci: a pool that is exhausted is told by the deadline, with the numbers", On,
                   ROWLOCK_SOCIS) {
  scene s(On::kind, 2);
  s.options.reply_timeout = 4s;
  auto const m = s.manager();
  {
    lease const a(*s.pool);
    lease const b(*s.pool);
    auto const start = boot_clock::now();
    auto const e = thrown_by([&] { m->connect(); });
    CHECK(boot_clock::now() - start < 30s);
    CHECK(boot_clock::now() - start >= 1900ms);  // half of the time was waited
    CHECK(e.reason() == errc::too_many_connections);
    CHECK(contains(what_of(e), "soci::connection_pool"));
    CHECK(contains(what_of(e), "of its 2, rowlock has 0 and the program 2"));
    CHECK(contains(what_of(e), "manager_options::connections"));
  }
  CHECK(m->make_mutex("x").try_acquire());  // and goes on once there is one
}

TEST_CASE_TEMPLATE("soci: T16: a pool with one session is enough for a lock and its renewals", On,
                   ROWLOCK_SOCIS) {
  scene s(On::kind, 1);
  s.options.reply_timeout = 3s;
  auto const m = s.manager();
  auto held = m->make_mutex("x", {.ttl = 6s}).try_acquire();
  REQUIRE(held);
  auto const first = *held->trusted_until();
  CHECK(eventually([&] { return *held->trusted_until() > first + 2 * 6s; }));
  CHECK(held->valid());
  CHECK(held->release() == release_result::released);
}

TEST_CASE_TEMPLATE("soci: more row locks than the pool has sessions are refused in time, with the numbers",
                   On, ::rowlock::test::on_soci_postgresql, ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 2);
  s.options.reply_timeout = 4s;
  s.options.strategy = strategy::row_lock;
  auto const m = s.manager();
  auto const a = m->make_mutex("a").try_acquire();
  auto const b = m->make_mutex("b").try_acquire();
  REQUIRE(a);
  REQUIRE(b);
  auto const start = boot_clock::now();
  auto const e = thrown_by([&] { (void)m->make_mutex("c").try_acquire(); });
  CHECK(boot_clock::now() - start < 30s);
  CHECK(e.reason() == errc::too_many_connections);
  CHECK(contains(what_of(e), "of its 2, rowlock has 2 and the program 0"));
  CHECK(contains(what_of(e), "row_lock_connections"));
}

TEST_CASE_TEMPLATE("soci: what became of our connection is nothing to the pool's session", On,
                   ::rowlock::test::on_soci_postgresql, ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 2);
  {
    auto const source = soci::source(*s.pool);
    auto const c = source.implementation()->connect(in(20'000));
    auto const id = c->execute(
        {"id", is_mysql(On::kind) ? "SELECT connection_id()" : "SELECT pg_backend_pid()"}, {}, in(20'000));
    auto const number = std::to_string(backend::as_int(id.rows.at(0).at(0)));
    c->script(is_mysql(On::kind) ? "START TRANSACTION" : "BEGIN", in(20'000));
    s.db->connect()->script(
        is_mysql(On::kind) ? "KILL " + number : "SELECT pg_terminate_backend(" + number + ")", in(20'000));
    CHECK(eventually([&] { return !c->alive(); }));
    CHECK(thrown_by([&] { c->script("ROLLBACK", in(20'000)); }).reason() == errc::unreachable);
    CHECK_FALSE(c->usable());
  }
  lease const a(*s.pool);
  lease const b(*s.pool);
  CHECK(one(*a) == 1);
  CHECK(one(*b) == 1);
}

TEST_CASE_TEMPLATE("soci: a session that was closed in a transaction lets go of its rows", On,
                   ::rowlock::test::on_soci_postgresql, ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 2);
  soci::source const source(*s.pool);
  auto const book = s.db->book();
  auto const c = source.implementation()->connect(in(20'000));
  c->execute(book.at("lock_insert_free"), with(std::string("x"), std::string("row_lock")), in(20'000));
  CHECK(c->wait_for_row(book.at("row_wait"), with(std::string("x")), in(1000), 5s, {}).rows.size() == 1);
  c->close();
  auto const other = s.db->connect();
  CHECK(other->wait_for_row(book.at("row_wait"), with(std::string("x")), in(20'000), 5s, {}).rows.size() ==
        1);
}

TEST_CASE_TEMPLATE("soci: errors have the same meaning and code as without it", On, ROWLOCK_SOCIS) {
  scene s(On::kind, 2);
  soci::source const source(*s.pool);
  auto const ours = source.implementation()->connect(in(20'000));
  auto const native = s.db->connect();
  for (std::string const sql : {"SELECT nothing FROM rowlock_locks", "SELECT 1 FROM no_such_table",
                                "NONSENSE", "INSERT INTO rowlock_locks (name) VALUES (NULL)"}) {
    CAPTURE(sql);
    auto const statement = adhoc(*s.db, "adhoc", sql);
    auto const a = thrown_by([&] { ours->execute(statement, {}, in(20'000)); });
    auto const b = thrown_by([&] { native->execute(statement, {}, in(20'000)); });
    CHECK(a.reason() == b.reason());
    CHECK(a.sqlstate() == b.sqlstate());
    CHECK(a.native_code() == b.native_code());
    CHECK((a.sqlstate().empty() == is_sqlite(On::kind)));
    CHECK((a.native_code() != 0 || plain(On::kind) == kind::postgresql));
    CHECK(ours->usable());
  }
}

TEST_CASE_TEMPLATE("soci: no reply by the deadline ends the session then", On,
                   ::rowlock::test::on_soci_postgresql, ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 2);
  soci::source const source(*s.pool);
  auto const c = source.implementation()->connect(in(20'000));
  auto const start = boot_clock::now();
  auto const sleep = is_mysql(On::kind) ? "SELECT sleep(20)" : "SELECT pg_sleep(20)";
  CHECK(thrown_by([&] { c->execute({"sleep", sleep}, {}, in(2000)); }).reason() == errc::in_doubt);
  CHECK(boot_clock::now() - start < 15s);
  CHECK_FALSE(c->usable());
}

TEST_CASE("soci: pools that can't be used are refused with a reason") {
  ::soci::connection_pool closed(2);
  auto const e = thrown_by([&] { soci::source const s(closed); });
  CHECK(e.reason() == errc::invalid_argument);
  CHECK(contains(what_of(e), "not open"));
  std::size_t position = 0;
  CHECK(closed.try_lease(position, 0));  // given back
  auto const memory = make_soci_pool("sqlite::memory:", 1);
  CHECK(thrown_by([&] { soci::source const s(*memory); }).reason() == errc::unsupported);
  auto const db = make_database(kind::sqlite);
  auto const half = make_soci_pool(db->url(), 2);
  half->at(1).close();
  soci::source const s(*half);
  auto const first = s.implementation()->connect(in(20'000));
  CHECK(thrown_by([&] { s.implementation()->connect(in(20'000)); }).reason() == errc::invalid_argument);
}

TEST_CASE_TEMPLATE("soci: a forked child leaves the pool alone, and makes one of its own", On,
                   ROWLOCK_SOCIS) {
  scene s(On::kind, 4);
  auto m = s.manager();
  auto held = m->make_mutex("x").try_acquire();
  REQUIRE(held);
  soci::source source(*s.pool);
  auto c = source.implementation()->connect(in(20'000));
  child inner([&](child&) {
    int wrong = 0;
    wrong += thrown_by([&] { (void)m->make_mutex("y").try_acquire(); }).reason() == errc::forked ? 0 : 1;
    wrong +=
        thrown_by([&] { source.implementation()->connect(in(20'000)); }).reason() == errc::forked ? 0 : 2;
    c.reset();
    m.reset();
    auto const pool = make_soci_pool(s.db->url(), 3);
    if (is_sqlite(On::kind))  // which keeps locks per process
      return wrong + (thrown_by([&] { soci::source const own(*pool); }).reason() == errc::forked ? 0 : 4);
    lock_manager own(soci::source(*pool), s.options);
    wrong += own.make_mutex("x").try_acquire() ? 4 : 0;
    wrong += own.make_mutex("y").try_acquire() ? 0 : 8;
    return wrong;
  });
  CHECK(inner.join() == 0);
  CHECK(c->usable());
  c->script(begin_of(On::kind), in(20'000));
  c->script("ROLLBACK", in(20'000));
  CHECK(held->release() == release_result::released);
}

TEST_CASE("soci: a forked child of a process with such sessions on SQLite is refused a plain source, too") {
  scene s(kind::soci_sqlite, 2);
  sqlite::source const plain(s.db->url().substr(std::string("sqlite:").size()));
  soci::source const ours(*s.pool);
  auto const c = ours.implementation()->connect(in(20'000));
  child inner([&](child&) {
    auto const e = thrown_by([&] { plain.implementation()->connect(in(20'000)); });
    return e.reason() == errc::forked && contains(what_of(e), "SOCI sessions on SQLite") ? 0 : 1;
  });
  CHECK(inner.join() == 0);
  CHECK_NOTHROW(plain.implementation()->connect(in(20'000)));
}

TEST_CASE_TEMPLATE("D6: MySQL sessions of SOCI's that end do not break ours, nor ours theirs", On,
                   ROWLOCK_SOCI_MYSQLS) {
  scene s(On::kind, 4);
  std::atomic<bool> stop{false};
  std::atomic<int> ended{0};
  // The destructor of SOCI's session is said to end the client library for all.
  std::jthread const ender([&] {
    while (!stop) {
      make_soci_pool(s.db->url(), 1);
      ++ended;
    }
  });
  {
    auto const m = s.manager();
    auto const held = m->make_mutex("held", {.ttl = 15s}).try_acquire();
    REQUIRE(held);
    for (int i = 0; i < 30; ++i) {
      // New connections, and what happens to be there.
      auto const other = s.manager();
      auto lock = other->make_mutex("x").try_acquire();
      REQUIRE(lock);
      CHECK(lock->release() == release_result::released);
      CHECK(s.db->connect()->usable());
    }
    wait_for_renewal(*held);
  }
  stop = true;
  CHECK(ended > 0);
  lease const l(*s.pool);
  CHECK(one(*l) == 1);
}

namespace {

struct on_postgresql_server {
  static constexpr auto kind = server_kind::postgresql;
};
struct on_mariadb_server {
  static constexpr auto kind = server_kind::mariadb;
};
struct on_mysql_server {
  static constexpr auto kind = server_kind::mysql;
};

}  // namespace
}  // namespace rowlock::test

TYPE_TO_STRING_AS("soci-postgresql", rowlock::test::on_postgresql_server);
TYPE_TO_STRING_AS("soci-mariadb", rowlock::test::on_mariadb_server);
TYPE_TO_STRING_AS("soci-mysql", rowlock::test::on_mysql_server);

namespace rowlock::test {

TEST_CASE_TEMPLATE("soci: a server that is restarted is found again, by us and by the pool's sessions", On,
                   on_postgresql_server, on_mariadb_server, on_mysql_server) {
  database_server server(On::kind);
  auto const pool = make_soci_pool(server.address(), 3);
  {
    soci::source const source(*pool);
    migrator(source).up();
    lock_manager m(source);
    CHECK(m.make_mutex("x").try_acquire());
    server.kill();
    auto const e = thrown_by([&] { (void)m.make_mutex("x").try_acquire(); });
    CHECK(e.reason() == errc::unreachable);
    server.restart();
    // Not x: that it was given back may not have been flushed.
    CHECK(m.make_mutex("y").try_acquire_for(20s));
  }
  // Also one that was dead in the pool when we got it.
  lease const a(*pool);
  lease const b(*pool);
  lease const c(*pool);
  CHECK(one(*a) == 1);
}

TEST_CASE_TEMPLATE("soci: on a silent server no call is late, and no broken session comes back as a good one",
                   On, on_postgresql_server, on_mariadb_server, on_mysql_server) {
  database_server server(On::kind);
  auto const pool = make_soci_pool(server.address(), 2);
  auto source = std::make_unique<soci::source>(*pool);
  auto c = source->implementation()->connect(in(20'000));
  c->execute({"one", "SELECT 1"}, {}, in(20'000));
  server.pause();
  auto start = boot_clock::now();
  CHECK(thrown_by([&] { c->execute({"one", "SELECT 1"}, {}, in(2000)); }).reason() == errc::in_doubt);
  CHECK(boot_clock::now() - start < 20s);
  c.reset();
  CHECK(boot_clock::now() - start < 20s);
  start = boot_clock::now();
  CHECK(thrown_by([&] { source->implementation()->connect(in(1000)); }).reason() == errc::unreachable);
  CHECK(boot_clock::now() - start < 20s);
  start = boot_clock::now();
  source.reset();
  CHECK(boot_clock::now() - start < 20s);
  server.resume();
  lease const a(*pool);
  lease const b(*pool);
  auto const broken = [](::soci::session& s) {
    try {
      return one(s) != 1;
    } catch (::soci::soci_error const&) {
      return true;
    }
  };
  CHECK((broken(*a) || broken(*b)));
  for (auto const* l : {&a, &b})
    if (broken(**l)) (**l).reconnect();
  CHECK(one(*a) == 1);
  CHECK(one(*b) == 1);
}

TEST_CASE_TEMPLATE("soci: sessions that came back without a connection are of use to the next manager", On,
                   on_postgresql_server, on_mariadb_server) {
  database_server server(On::kind);
  auto const pool = make_soci_pool(server.address(), 3);
  {
    soci::source const source(*pool);
    migrator(source).up();
    server.kill();
  }
  server.restart();
  lock_manager m{soci::source{*pool}};
  CHECK(m.make_mutex("x").try_acquire());
}

}  // namespace rowlock::test
