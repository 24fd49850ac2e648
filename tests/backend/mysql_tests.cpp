// Sessions of MySQL and MariaDB: statements, values and errors.

#include <cppconn/connection.h>
#include <cppconn/exception.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <mysql_driver.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <fstream>
#include <rowlock/mysql.hpp>
#include <thread>
#include <utility>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/parameters.hpp"
#include "backend/mysql/session.hpp"
#include "backend/mysql_tools.hpp"
#include "support/eventually.hpp"
#include "support/innodb.hpp"

namespace rowlock::test {

using backend::as_int;
using backend::as_text;
using backend::value;
using namespace std::chrono_literals;

TEST_CASE("mysql parameters: $n becomes ?, but not in quotes and comments") {
  using backend::mysql::mark_parameters;
  auto const m = mark_parameters("a $2 '$1' \"$1\" `$1` -- $1\n$1 # $1\n/* $1 */ $12 'it''s \\' $1' $2--$1");
  CHECK(m.sql == "a ? '$1' \"$1\" `$1` -- $1\n? # $1\n/* $1 */ ? 'it''s \\' $1' ?--?");
  CHECK(m.order == std::vector<std::size_t>{1, 0, 11, 1, 0});
  CHECK(m.highest == 12);
  CHECK(mark_parameters("SELECT '$[*]', $.x, $ 1").order.empty());
}

TEST_CASE("mysql errors: what the numbers mean") {
  using backend::mysql::classify;
  using backend::mysql::stake;
  auto const of = [](int native, stake s = stake::statement, char const* message = "") {
    return classify(native, message, s);
  };
  CHECK(of(1205) == errc::row_locked);
  CHECK(of(3572) == errc::row_locked);
  CHECK(of(1213) == errc::conflict);
  CHECK(of(1213, stake::commit) == errc::conflict);
  CHECK(of(1180) == errc::in_doubt);
  for (int unknown : {1180, 1317, 2013, 2006, 2026, 1053, 1205, 1047, 1290, 1, 0})
    CHECK(of(unknown, stake::commit) == errc::in_doubt);
  for (int lost : {2006, 2013, 2026, 1053, 1927}) {
    CHECK(of(lost) == errc::in_doubt);
    CHECK(of(lost, stake::nothing) == errc::unreachable);
    CHECK(backend::mysql::ends_session(lost));
  }
  CHECK(of(1290, stake::statement, "running with the --read-only option") == errc::read_only);
  CHECK(of(1290, stake::statement, "running with the --skip-grant-tables option") == errc::failed);
  CHECK(of(1047) == errc::unreachable);
  CHECK(of(1040) == errc::too_many_connections);
  CHECK(of(1461) ==
        errc::too_many_connections);     // others leave statements prepared: no bug, and not for ever
  CHECK(of(1665) == errc::unsupported);  // binlog_format = STATEMENT
  CHECK(of(1114) == errc::storage_full);
  CHECK(of(1064) == errc::failed);
  CHECK(of(0) == errc::failed);
  CHECK_FALSE(backend::mysql::ends_session(1205));
}

namespace {

/// A driver whose server is a node of Galera, which fails each statement as if a row were locked.
class galera_node final : public backend::mysql::channel {
 public:
  /// `ready`: its wsrep_ready; empty: it does not answer that.
  explicit galera_node(std::string ready) : ready_(std::move(ready)) {}
  void enter_thread() override {}
  bool is_mariadb() override { return true; }
  bool ping() override { return true; }
  std::unique_ptr<backend::mysql::prepared_statement> prepare(std::string const&) override {
    throw backend::mysql::refusal(1205, "HY000", "Lock wait timeout exceeded");
  }
  backend::result run(std::string const& sql) override {
    CHECK(sql == "SHOW SESSION STATUS LIKE 'wsrep_ready'");
    // As when the session is set up, once.
    auto const ready = std::exchange(asked_, true) ? ready_ : "ON";
    if (ready.empty()) throw backend::mysql::refusal(2013, "HY000", "Lost connection");
    return {.rows = {{value("wsrep_ready"), value(ready)}}};
  }
  std::vector<backend::result> run_all(std::string const&) override {
    std::vector<backend::result> all(6);
    all[3].rows = {{value("wsrep_on"), value("ON")}};
    all[4].rows = {{value("d")}};
    return all;
  }

 private:
  std::string ready_;
  bool asked_ = false;
};

error refused_by(std::string const& ready) {
  backend::mysql::session s(std::make_unique<galera_node>(ready), nullptr, "there", in(20'000));
  return thrown_by([&] { s.execute({"s", "SELECT 1"}, {}, in(20'000)); });
}

}  // namespace

TEST_CASE("mysql: Galera: of a node that fails a statement, what it says of itself, and no more than that") {
  auto const busy = refused_by("ON");
  CHECK(busy.reason() == errc::row_locked);
  auto const off = refused_by("OFF");
  CHECK(off.reason() == errc::unreachable);
  CHECK(says(off, "wsrep_ready is off"));
  auto const silent = refused_by("");
  CHECK(silent.reason() == errc::unreachable);
  CHECK(says(silent, "did not answer when it was asked"));
  CHECK_FALSE(says(silent, "is off"));
}

TEST_CASE_TEMPLATE("connector: the session is set up, whatever the server's and the login's settings say", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const variable = [&](std::string const& name) {
    return as_text(c->execute({name, "SHOW VARIABLES LIKE '" + name + "'"}, {}, in(20'000)).rows.at(0).at(1));
  };
  CHECK(variable(On::kind == kind::mysql ? "transaction_isolation" : "tx_isolation") == "READ-COMMITTED");
  CHECK(variable("autocommit") == "ON");
  CHECK(variable("innodb_lock_wait_timeout") == "1");
  CHECK(variable("lock_wait_timeout") == "1");
  CHECK(variable("completion_type") == "NO_CHAIN");
  CHECK(variable("character_set_client") == "utf8mb4");
  CHECK(variable("character_set_results") == "utf8mb4");
  CHECK(variable("sql_mode").find("STRICT_ALL_TABLES") != std::string::npos);
}

TEST_CASE_TEMPLATE("connector: integers of every width, and the types that statements return", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  c->script("CREATE TABLE w (a TINYINT, b SMALLINT, c MEDIUMINT, d INT, e BIGINT, f BOOLEAN, g VARBINARY(9))",
            in(20'000));
  c->script("INSERT INTO w VALUES (-1, -2, -3, -4, -5, true, '6')", in(20'000));
  CHECK(c->execute({"w", "SELECT * FROM w"}, {}, in(20'000)).rows.at(0) ==
        backend::row{std::int64_t{-1}, std::int64_t{-2}, std::int64_t{-3}, std::int64_t{-4}, std::int64_t{-5},
                     std::int64_t{1}, std::string("6")});
  auto const book = db->book();
  c->execute(book.at("lock_insert_free"), with("n", "lease"), in(20'000));
  c->execute(book.at("lock_take"), take_parameters("n", "t"), in(20'000));
  for (auto const* read : {"lock_read", "lock_list"}) {
    auto const row = c->execute(book.at(read),
                                read == std::string("lock_read") ? with("n") : list_parameters(), in(20'000))
                         .rows.at(0);
    std::string types;
    for (auto const& v : row) types += "nit"[v.index()];
    CHECK(types ==
          "ttti"
          "titi"
          "iiti"
          "iitni");
  }
  auto const one = with(R"([{"name":"n","term":"t"}])");
  auto const checked = c->execute(book.at("lock_check"), one, in(20'000)).rows.at(0);
  CHECK(checked == backend::row{std::string("t"), std::int64_t{0}, std::int64_t{0}});
}

TEST_CASE_TEMPLATE(
    "connector: of what is sent at once nothing is done if a step fails, and no transaction stays", On,
    ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const other = db->connect();
  c->script("CREATE TABLE t (n BIGINT PRIMARY KEY) ENGINE = InnoDB", in(20'000));
  backend::statement const insert{"insert", "INSERT INTO t VALUES ($1)"};
  backend::statement const count{"count", "SELECT count(*) FROM t"};
  backend::statement const silence{"silence", "SELECT @@session.wait_timeout"};
  auto const usual = c->execute(silence, {}, in(20'000)).rows;
  auto const one = with(std::int64_t{1});
  auto const two = with(std::int64_t{2});
  auto const run = [&](std::vector<backend::step> const& steps) {
    return c->execute_at_once(steps, in(20'000));
  };
  auto const seen = [&] { return as_int(other->execute(count, {}, in(20'000)).rows.at(0).at(0)); };
  CHECK(thrown_by([&] { run({{insert, one}, {insert, one}, {insert, two}}); }).reason() == errc::failed);
  CHECK(c->usable());
  CHECK(other->execute(insert, one, in(20'000)).affected == 1);  // waits for nobody
  CHECK(seen() == 1);
  CHECK(c->execute(silence, {}, in(20'000)).rows == usual);
  auto const done = run({{insert, two}, {count, {}}, {silence, {}}});
  REQUIRE(done.size() == 3);
  CHECK(as_int(done[1].rows.at(0).at(0)) == 2);
  CHECK(as_int(done[2].rows.at(0).at(0)) == 30);
  CHECK(seen() == 2);
  CHECK(c->execute(silence, {}, in(20'000)).rows == usual);
}

TEST_CASE_TEMPLATE("connector: replies that can't be told apart are said once, and end the session", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  backend::statement const two{"two_in_one", "SELECT 1; SELECT 2"};
  std::vector<backend::step> const steps{{two, {}}};
  auto const e = thrown_by([&] { c->execute_at_once(steps, in(20'000)); });
  CHECK(e.reason() == errc::in_doubt);
  std::string const said = e.what();
  auto const at = said.find("two_in_one: the server's replies can't be told apart");
  REQUIRE(at != said.npos);
  CHECK(said.find("two_in_one") == at);
  CHECK_FALSE(c->usable());
}

TEST_CASE_TEMPLATE("connector: a script notices an error in any of its statements, and the session goes on",
                   On, ROWLOCK_MYSQLS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  c->script("CREATE TABLE s (a INT PRIMARY KEY); INSERT INTO s VALUES (1);\nSELECT * FROM s;\n", in(20'000));
  for (auto const* text :
       {"INSERT INTO s VALUES (1)", "INSERT INTO s VALUES (2); INSERT INTO s VALUES (1)",
        "INSERT INTO s VALUES (3); INSERT INTO s VALUES (1); INSERT INTO s VALUES (4)",
        "SELECT 1; SELECT 2; INSERT INTO s VALUES (1);", "DO 0; SELECT nosuch FROM s; DO 0"}) {
    CAPTURE(text);
    CHECK(thrown_by([&] { c->script(text, in(20'000)); }).native_code() != 0);
    REQUIRE(c->usable());
  }
  CHECK(as_int(ask(*c, "SELECT CAST(sum(a) AS SIGNED) FROM s")) ==
        6);  // what stands behind an error is not run
}

TEST_CASE_TEMPLATE("connector: a session that is killed during a statement leaves it in doubt", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const watch = db->connect();
  auto const id = own_id(*c);
  std::jthread const killer([&] {
    wait_until_busy(*watch, id, "User sleep");  // not while it is being prepared
    watch->script(fmt::format("KILL {}", id), in(20'000));
  });
  CHECK(thrown_by([&] {
          c->execute({"sleep", "SELECT sleep(60)"}, {}, in(60'000));
        }).reason() == errc::in_doubt);
  CHECK_FALSE(c->usable());
}

TEST_CASE_TEMPLATE(
    "connector: no reply by the deadline ends the session then, not after the connection's whole seconds", On,
    ROWLOCK_MYSQLS) {
  auto const c = connect_to(mysql_server_url(On::kind), 60'000);
  auto const other = connect_to(mysql_server_url(On::kind), 60'000);
  auto const start = boot_clock::now();
  auto const e = thrown_by([&] { c->execute({"sleep", "SELECT sleep(60)"}, {}, in(2000)); });
  CHECK(boot_clock::now() - start >= 2s);
  CHECK(boot_clock::now() - start < 30s);
  CHECK(e.reason() == errc::in_doubt);
  CHECK(std::string(e.what()).find("no reply came in time") != std::string::npos);
  CHECK_FALSE(c->usable());
  // Deadlines that come later, and one that came earlier and was met, end nothing.
  other->script("DO sleep(0.2)", in(3000));
  for (int const ms : {60'000, 50'000, 40'000}) other->script("DO sleep(1.2)", in(ms));
  CHECK(other->alive());
}

TEST_CASE_TEMPLATE("connector: each of several that were made at the same moment knows its own socket", On,
                   ROWLOCK_MYSQLS) {
  mysql::source const source(mysql_server_url(On::kind));
  std::vector<std::unique_ptr<backend::connection>> all(8);
  {
    std::barrier together(static_cast<std::ptrdiff_t>(all.size()));
    std::vector<std::jthread> threads;
    for (auto& one : all)
      threads.emplace_back([&] {
        together.arrive_and_wait();
        one = source.implementation()->connect(in(60'000));
      });
  }
  auto const watch = connect_to(mysql_server_url(On::kind));
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const id = own_id(*all[i]);
    watch->script(fmt::format("KILL {}", id), in(20'000));
    // Then the server has closed it. Not asked until it is so: after a second without use it would ask.
    REQUIRE(eventually([&] {
      return as_int(ask(
                 *watch,
                 fmt::format("SELECT count(*) FROM information_schema.processlist WHERE id = {}", id))) == 0;
    }));
    CHECK_FALSE(all[i]->alive());
    for (auto j = i + 1; j < all.size(); ++j) CHECK(all[j]->alive());
  }
}

TEST_CASE_TEMPLATE(
    "connector: a session that was killed while it was idle is unreachable, and nothing was sent", On,
    ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const watch = db->connect();
  CHECK(c->alive());
  watch->script(fmt::format("KILL {}", own_id(*c)), in(20'000));
  auto const until = in(20'000);
  while (c->alive()) REQUIRE(boot_clock::now() < until);
  auto const e = thrown_by([&] { c->execute(db->book().at("meta_read"), {}, in(20'000)); });
  CHECK(e.reason() == errc::unreachable);
  CHECK_FALSE(c->usable());
}

// The connector's commit() says nothing of it.
TEST_CASE_TEMPLATE("connector: COMMIT on a session that was killed is in doubt", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const url = mysql_server_url(On::kind);
  auto const name = as_text(ask(*db->connect(), "SELECT database()"));
  mysql::source const by_hand([&] { return open_by_hand(with_database(url, name), true); });
  auto const c = by_hand.implementation()->connect(in(20'000));
  c->script("START TRANSACTION", in(20'000));
  c->script(db->tables().render("UPDATE rowlock_meta SET token_floor = 9"), in(20'000));
  auto const id = own_id(*c);
  auto const other = db->connect();
  other->script(fmt::format("KILL {}", id), in(20'000));
  REQUIRE(eventually([&] {
    return as_int(ask(*other, fmt::format("SELECT count(*) FROM information_schema.processlist WHERE id = {}",
                                          id))) == 0;
  }));
  CHECK(thrown_by([&] { c->script("COMMIT", in(20'000)); }).reason() == errc::in_doubt);
  CHECK_FALSE(c->usable());
  CHECK(as_int(ask(*db->connect(), db->tables().render("SELECT token_floor FROM rowlock_meta"))) == 0);
}

TEST_CASE_TEMPLATE(
    "connector: a statement that an administrator cancels is a conflict, and the session goes on", On,
    ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const watch = db->connect();
  auto const id = own_id(*c);
  std::jthread const killer([&] {
    wait_until_busy(*watch, id, "User sleep");
    watch->script(fmt::format("KILL QUERY {}", id), in(20'000));
  });
  auto const e = thrown_by([&] {
    c->execute({"slow", db->tables().render("UPDATE rowlock_meta SET token_floor = sleep(60) + 7")}, {},
               in(60'000));
  });
  CHECK(e.reason() == errc::conflict);
  CHECK(e.native_code() == 1317);
  CHECK(as_int(ask(*c, db->tables().render("SELECT token_floor FROM rowlock_meta"))) == 0);
}

TEST_CASE_TEMPLATE("connector: a deadlock is a conflict", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  std::unique_ptr<backend::connection> const two[] = {db->connect(), db->connect()};
  two[0]->script("CREATE TABLE d (a INT PRIMARY KEY); INSERT INTO d VALUES (0), (1)", in(20'000));
  std::atomic<int> deadlocks{0};
  std::atomic<int> ready{0};
  {
    std::vector<std::jthread> threads;
    for (int i : {0, 1})
      threads.emplace_back([&, i] {
        auto& c = *two[i];
        c.script("START TRANSACTION", in(20'000));
        c.execute({"first", "SELECT a FROM d WHERE a = $1 FOR UPDATE"}, with(std::int64_t{i}), in(20'000));
        ++ready;
        while (ready < 2) continue;
        try {
          c.execute({"first", "SELECT a FROM d WHERE a = $1 FOR UPDATE"}, with(std::int64_t{1 - i}),
                    in(20'000));
        } catch (error const& e) {
          if (e.reason() == errc::conflict && e.native_code() == 1213) ++deadlocks;
        }
        c.script("ROLLBACK", in(20'000));
      });
  }
  CHECK(deadlocks == 1);
}

TEST_CASE_TEMPLATE("connector: a read-only transaction is read_only", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  c->script("START TRANSACTION READ ONLY", in(20'000));
  auto const e =
      thrown_by([&] { c->execute(db->book().at("lock_insert_free"), with("n", "lease"), in(20'000)); });
  CHECK(e.reason() == errc::read_only);
  CHECK_FALSE(c->usable());
}

TEST_CASE_TEMPLATE("connector: missing grants and refused logins are access_denied, and no password is told",
                   On, ROWLOCK_MYSQLS) {
  poor_user user(On::kind);
  user.grant("SELECT");
  user.admin().script(fmt::format("CREATE TABLE {}.t (a INT)", user.name()), in(20'000));
  auto const c = connect_to(user.url());
  auto const e = thrown_by([&] { c->execute({"i", "INSERT INTO t VALUES (1)"}, {}, in(20'000)); });
  CHECK(e.reason() == errc::access_denied);
  CHECK(e.native_code() == 1142);
  CHECK(e.sqlstate() == "42000");
  CHECK(says(e, "grant SELECT, INSERT"));
  auto const wrong = thrown_by([&] { connect_to(user.url("secret1")); });
  CHECK(wrong.reason() == errc::access_denied);
  CHECK(wrong.native_code() == 1045);
  CHECK(says(wrong, "user=" + user.name()));
  CHECK_FALSE(says(wrong, "secret1"));
  auto const other = thrown_by([&] { connect_to(with_database(user.url(), "mysql")); });
  CHECK(other.reason() == errc::access_denied);
}

TEST_CASE_TEMPLATE("connector: a missing database is schema_missing, nobody there is unreachable", On,
                   ROWLOCK_MYSQLS) {
  auto const url = mysql_server_url(On::kind);
  auto const e = thrown_by([&] { connect_to(with_database(url, "nowhere")); });
  CHECK(e.reason() == errc::schema_missing);
  CHECK(says(e, "nowhere"));
  CHECK(says(e, "create the database"));
  auto const p = parts_of(url);
  CHECK(thrown_by([&] { connect_to("mysql://u:secret1@127.0.0.1:1/d"); }).reason() == errc::unreachable);
}

TEST_CASE_TEMPLATE("connector: text that is too long, or not UTF-8, is invalid and never cut", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const insert = [&](std::string const& name) {
    return thrown_by([&] { c->execute(db->book().at("lock_insert_free"), with(name, "lease"), in(20'000)); })
        .reason();
  };
  CHECK(insert(std::string(256, 'x')) == errc::invalid_argument);
  auto parameters = take_parameters("n", "t");
  c->execute(db->book().at("lock_insert_free"), with("n", "lease"), in(20'000));
  parameters[10] = std::string("\xff");
  CHECK(thrown_by([&] { c->execute(db->book().at("lock_take"), parameters, in(20'000)); }).reason() ==
        errc::invalid_argument);
  CHECK(c->execute(db->book().at("lock_list"), list_parameters(), in(20'000)).rows.size() == 1);
}

TEST_CASE_TEMPLATE("connector: statements outlive a change of their table, and one name may have two texts",
                   On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const read = db->book().at("lock_list");
  c->execute(read, list_parameters(), in(20'000));
  db->connect()->script(db->tables().render("ALTER TABLE rowlock_locks ADD COLUMN later INT"), in(20'000));
  CHECK(c->execute(read, list_parameters(), in(20'000)).rows.empty());
  CHECK(c->execute({"one name", "SELECT 1"}, {}, in(20'000)).rows.at(0).at(0) == value(std::int64_t{1}));
  CHECK(c->execute({"one name", "SELECT $1, 2"}, with("x"), in(20'000)).rows.at(0).at(1) ==
        value(std::int64_t{2}));
}

TEST_CASE_TEMPLATE("connector: a large statement and a large reply pass", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  std::string json = "[";
  for (int i = 0; i < 10'000; ++i)
    json += fmt::format(
        R"({}{{"name":"a name that is not so short {}","term":"0123456789abcdef0123456789abcdef"}})",
        i == 0 ? "" : ",", i);
  json += "]";
  REQUIRE(json.size() > 512 * 1024);
  CHECK(c->execute(db->book().at("lock_renew"), with(json), in(20'000)).affected == 0);
  CHECK(c->execute(db->book().at("lock_renew_due"), with(json), in(20'000)).rows.empty());
  CHECK(c->execute(db->book().at("lock_check"), with(json), in(20'000)).rows.empty());
  auto const echo = c->execute({"echo", "SELECT CONVERT($1 USING utf8mb4)"}, with(json), in(20'000));
  CHECK(as_text(echo.rows.at(0).at(0)) == json);
}

}  // namespace rowlock::test
