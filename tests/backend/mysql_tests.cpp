// MySQL and MariaDB alone: sessions, logins, row locks, and the SQL's own promises on InnoDB.

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

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/mysql/errors.hpp"
#include "backend/mysql/parameters.hpp"
#include "support/eventually.hpp"
#include "support/innodb.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using backend::as_text;
using backend::value;
using namespace std::chrono_literals;

value ask(backend::connection& c, std::string const& sql) {
  return c.execute({"ask " + sql, sql}, {}, in(5000)).rows.at(0).at(0);
}

std::int64_t own_id(backend::connection& c) { return as_int(ask(c, "SELECT connection_id()")); }

std::unique_ptr<backend::connection> connect_to(std::string const& url, int ms = 5000) {
  return mysql::source(url).implementation()->connect(in(ms));
}

// Until the session executes something, or waits within it; to prepare it is not enough.
void wait_until_busy(backend::connection& watch, std::int64_t id, std::string const& in_state = {}) {
  auto const until = in(10'000);
  while (
      as_int(ask(watch, fmt::format("SELECT count(*) FROM information_schema.processlist WHERE id = {} AND "
                                    "command IN ('Execute', 'Query') AND ('{}' IN ('', state))",
                                    id, in_state))) == 0)
    REQUIRE(boot_clock::now() < until);
}

struct parts {
  std::string user, password, host, port, database;
};

parts parts_of(std::string const& url) {  // as tests/servers/mariadb prints it
  auto const colon = url.find(':', url.find("//"));
  auto const at = url.find('@');
  auto const port = url.find(':', at);
  auto const slash = url.find('/', port);
  auto const user = url.find("//") + 2;
  return {url.substr(user, colon - user), url.substr(colon + 1, at - colon - 1),
          url.substr(at + 1, port - at - 1), url.substr(port + 1, slash - port - 1), url.substr(slash + 1)};
}

::sql::Connection* open_by_hand(std::string const& url, bool several) {
  auto const p = parts_of(url);
  ::sql::ConnectOptionsMap o;
  o["hostName"] = ::sql::SQLString("tcp://" + p.host + ":" + p.port);
  o["userName"] = ::sql::SQLString(p.user);
  o["password"] = ::sql::SQLString(p.password);
  o["schema"] = ::sql::SQLString(p.database);
  o["CLIENT_FOUND_ROWS"] = true;
  o["CLIENT_MULTI_STATEMENTS"] = several;
  o["OPT_READ_TIMEOUT"] = 20;
  return ::sql::mysql::get_driver_instance()->connect(o);
}

/// A user of the shared server's with few rights, in a database of its own.
class poor_user {
 public:
  explicit poor_user(kind k) : server_(mysql_server_url(k)), name_(unique_identifier()) {
    admin_ = connect_to(server_);
    admin_->script(fmt::format("CREATE DATABASE {0}; CREATE USER {0}@'%' IDENTIFIED BY 'poor'", name_),
                   in(5000));
  }
  ~poor_user() { admin_->script(fmt::format("DROP USER {0}@'%'; DROP DATABASE {0}", name_), in(10'000)); }
  void grant(std::string const& what) {
    admin_->script(fmt::format("GRANT {} ON {}.* TO {}@'%'", what, name_, name_), in(5000));
  }
  std::string url(std::string const& password = "poor") const {
    auto const p = parts_of(server_);
    return fmt::format("mysql://{}:{}@{}:{}/{}", name_, password, p.host, p.port, name_);
  }
  backend::connection& admin() { return *admin_; }
  std::string const& name() const { return name_; }

 private:
  std::string server_;
  std::string name_;
  std::unique_ptr<backend::connection> admin_;
};

std::vector<value> lock_parameters(std::string const& name) { return with(name); }

}  // namespace

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
  for (int unknown : {1180, 1317, 2013, 2006, 1053, 1205, 1047, 1290, 1, 0})
    CHECK(of(unknown, stake::commit) == errc::in_doubt);
  for (int lost : {2006, 2013, 1053, 1927}) {
    CHECK(of(lost) == errc::in_doubt);
    CHECK(of(lost, stake::nothing) == errc::unreachable);
    CHECK(backend::mysql::ends_session(lost));
  }
  CHECK(of(1290, stake::statement, "running with the --read-only option") == errc::read_only);
  CHECK(of(1290, stake::statement, "running with the --skip-grant-tables option") == errc::failed);
  CHECK(of(1047) == errc::unreachable);
  CHECK(of(1040) == errc::too_many_connections);
  CHECK(of(1114) == errc::storage_full);
  CHECK(of(1064) == errc::failed);
  CHECK(of(0) == errc::failed);
  CHECK_FALSE(backend::mysql::ends_session(1205));
}

TEST_CASE_TEMPLATE("connector: the session is set up, whatever the server's and the login's settings say", On,
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const variable = [&](std::string const& name) {
    return as_text(c->execute({name, "SHOW VARIABLES LIKE '" + name + "'"}, {}, in(5000)).rows.at(0).at(1));
  };
  CHECK(variable(plain(On::kind) == kind::mysql ? "transaction_isolation" : "tx_isolation") ==
        "READ-COMMITTED");
  CHECK(variable("autocommit") == "ON");
  CHECK(variable("innodb_lock_wait_timeout") == "1");
  CHECK(variable("lock_wait_timeout") == "1");
  CHECK(variable("completion_type") == "NO_CHAIN");
  CHECK(variable("character_set_client") == "utf8mb4");
  CHECK(variable("character_set_results") == "utf8mb4");
  CHECK(variable("sql_mode").find("STRICT_ALL_TABLES") != std::string::npos);
}

TEST_CASE_TEMPLATE("connector: integers of every width, and the types that statements return", On,
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  c->script("CREATE TABLE w (a TINYINT, b SMALLINT, c MEDIUMINT, d INT, e BIGINT, f BOOLEAN, g VARBINARY(9))",
            in(5000));
  c->script("INSERT INTO w VALUES (-1, -2, -3, -4, -5, true, '6')", in(5000));
  CHECK(c->execute({"w", "SELECT * FROM w"}, {}, in(5000)).rows.at(0) ==
        backend::row{std::int64_t{-1}, std::int64_t{-2}, std::int64_t{-3}, std::int64_t{-4}, std::int64_t{-5},
                     std::int64_t{1}, std::string("6")});
  auto const book = db->book();
  c->execute(book.at("lock_insert_free"), with("n", "lease"), in(5000));
  c->execute(book.at("lock_take"), take_parameters("n", "t"), in(5000));
  for (auto const* read : {"lock_read", "lock_list"}) {
    auto const row =
        c->execute(book.at(read),
                   with(read == std::string("lock_read") ? value("n") : value(std::int64_t{0})), in(5000))
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
  auto const checked = c->execute(book.at("lock_check"), one, in(5000)).rows.at(0);
  CHECK(checked == backend::row{std::string("t"), std::int64_t{0}, std::int64_t{0}});
}

TEST_CASE_TEMPLATE("connector: a script notices an error in any of its statements, and the session goes on",
                   On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  c->script("CREATE TABLE s (a INT PRIMARY KEY); INSERT INTO s VALUES (1);\nSELECT * FROM s;\n", in(5000));
  for (auto const* text :
       {"INSERT INTO s VALUES (1)", "INSERT INTO s VALUES (2); INSERT INTO s VALUES (1)",
        "INSERT INTO s VALUES (3); INSERT INTO s VALUES (1); INSERT INTO s VALUES (4)",
        "SELECT 1; SELECT 2; INSERT INTO s VALUES (1);", "DO 0; SELECT nosuch FROM s; DO 0"}) {
    CAPTURE(text);
    CHECK(thrown_by([&] { c->script(text, in(5000)); }).native_code() != 0);
    REQUIRE(c->usable());
  }
  CHECK(as_int(ask(*c, "SELECT CAST(sum(a) AS SIGNED) FROM s")) ==
        6);  // what stands behind an error is not run
}

TEST_CASE_TEMPLATE("connector: a session that is killed during a statement leaves it in doubt", On,
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_empty_database(On::kind);
  auto const c = db->connect();
  auto const watch = db->connect();
  auto const id = own_id(*c);
  std::jthread const killer([&] {
    wait_until_busy(*watch, id, "User sleep");  // not while it is being prepared
    watch->script(fmt::format("KILL {}", id), in(5000));
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
  auto const e = thrown_by([&] { c->execute({"sleep", "SELECT sleep(60)"}, {}, in(300)); });
  CHECK(boot_clock::now() - start >= 300ms);
  CHECK(boot_clock::now() - start < 30s);
  CHECK(e.reason() == errc::in_doubt);
  CHECK(std::string(e.what()).find("no reply came in time") != std::string::npos);
  CHECK_FALSE(c->usable());
  // Deadlines that come later, and one that came earlier and was met, end nothing.
  other->script("DO sleep(0.2)", in(400));
  for (int const ms : {30'000, 20'000, 10'000}) other->script("DO sleep(0.3)", in(ms));
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
    watch->script(fmt::format("KILL {}", own_id(*all[i])), in(5000));
    auto const until = in(900);  // after a second without use it would ask
    while (all[i]->alive() && boot_clock::now() < until) continue;
    CHECK_FALSE(all[i]->alive());
    for (auto j = i + 1; j < all.size(); ++j) CHECK(all[j]->alive());
  }
}

TEST_CASE_TEMPLATE(
    "connector: a session that was killed while it was idle is unreachable, and nothing was sent", On,
    ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const watch = db->connect();
  CHECK(c->alive());
  watch->script(fmt::format("KILL {}", own_id(*c)), in(5000));
  auto const until = in(5000);
  while (c->alive()) REQUIRE(boot_clock::now() < until);
  auto const e = thrown_by([&] { c->execute(db->book().at("meta_read"), {}, in(5000)); });
  CHECK(e.reason() == errc::unreachable);
  CHECK_FALSE(c->usable());
}

// The connector's commit() says nothing of it.
TEST_CASE_TEMPLATE("connector: COMMIT on a session that was killed is in doubt", On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const url = mysql_server_url(On::kind);
  auto const name = as_text(ask(*db->connect(), "SELECT database()"));
  mysql::source const by_hand([&] { return open_by_hand(with_database(url, name), true); });
  auto const c = by_hand.implementation()->connect(in(5000));
  c->script("START TRANSACTION", in(5000));
  c->script(db->tables().render("UPDATE rowlock_meta SET token_floor = 9"), in(5000));
  auto const id = own_id(*c);
  auto const other = db->connect();
  other->script(fmt::format("KILL {}", id), in(5000));
  REQUIRE(eventually([&] {
    return as_int(ask(*other, fmt::format("SELECT count(*) FROM information_schema.processlist WHERE id = {}",
                                          id))) == 0;
  }));
  CHECK(thrown_by([&] { c->script("COMMIT", in(5000)); }).reason() == errc::in_doubt);
  CHECK_FALSE(c->usable());
  CHECK(as_int(ask(*db->connect(), db->tables().render("SELECT token_floor FROM rowlock_meta"))) == 0);
}

TEST_CASE_TEMPLATE(
    "connector: a statement that an administrator cancels is a conflict, and the session goes on", On,
    ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const watch = db->connect();
  auto const id = own_id(*c);
  std::jthread const killer([&] {
    wait_until_busy(*watch, id, "User sleep");
    watch->script(fmt::format("KILL QUERY {}", id), in(5000));
  });
  auto const e = thrown_by([&] {
    c->execute({"slow", db->tables().render("UPDATE rowlock_meta SET token_floor = sleep(60) + 7")}, {},
               in(60'000));
  });
  CHECK(e.reason() == errc::conflict);
  CHECK(e.native_code() == 1317);
  CHECK(as_int(ask(*c, db->tables().render("SELECT token_floor FROM rowlock_meta"))) == 0);
}

TEST_CASE_TEMPLATE("connector: a deadlock is a conflict", On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  std::unique_ptr<backend::connection> const two[] = {db->connect(), db->connect()};
  two[0]->script("CREATE TABLE d (a INT PRIMARY KEY); INSERT INTO d VALUES (0), (1)", in(5000));
  std::atomic<int> deadlocks{0};
  std::atomic<int> ready{0};
  {
    std::vector<std::jthread> threads;
    for (int i : {0, 1})
      threads.emplace_back([&, i] {
        auto& c = *two[i];
        c.script("START TRANSACTION", in(5000));
        c.execute({"first", "SELECT a FROM d WHERE a = $1 FOR UPDATE"}, with(std::int64_t{i}), in(5000));
        ++ready;
        while (ready < 2) continue;
        try {
          c.execute({"first", "SELECT a FROM d WHERE a = $1 FOR UPDATE"}, with(std::int64_t{1 - i}),
                    in(5000));
        } catch (error const& e) {
          if (e.reason() == errc::conflict && e.native_code() == 1213) ++deadlocks;
        }
        c.script("ROLLBACK", in(5000));
      });
  }
  CHECK(deadlocks == 1);
}

TEST_CASE_TEMPLATE("connector: a read-only transaction is read_only", On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  c->script("START TRANSACTION READ ONLY", in(5000));
  auto const e =
      thrown_by([&] { c->execute(db->book().at("lock_insert_free"), with("n", "lease"), in(5000)); });
  CHECK(e.reason() == errc::read_only);
}

TEST_CASE_TEMPLATE("connector: missing grants and refused logins are access_denied, and no password is told",
                   On, ROWLOCK_MYSQLS) {
  poor_user user(On::kind);
  user.grant("SELECT");
  user.admin().script(fmt::format("CREATE TABLE {}.t (a INT)", user.name()), in(5000));
  auto const c = connect_to(user.url());
  auto const e = thrown_by([&] { c->execute({"i", "INSERT INTO t VALUES (1)"}, {}, in(5000)); });
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
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const insert = [&](std::string const& name) {
    return thrown_by([&] { c->execute(db->book().at("lock_insert_free"), with(name, "lease"), in(5000)); })
        .reason();
  };
  CHECK(insert(std::string(256, 'x')) == errc::invalid_argument);
  auto parameters = take_parameters("n", "t");
  c->execute(db->book().at("lock_insert_free"), with("n", "lease"), in(5000));
  parameters[10] = std::string("\xff");
  CHECK(thrown_by([&] { c->execute(db->book().at("lock_take"), parameters, in(5000)); }).reason() ==
        errc::invalid_argument);
  CHECK(c->execute(db->book().at("lock_list"), with(std::int64_t{1}), in(5000)).rows.size() == 1);
}

TEST_CASE_TEMPLATE("connector: statements outlive a change of their table, and one name may have two texts",
                   On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const read = db->book().at("lock_list");
  c->execute(read, with(std::int64_t{1}), in(5000));
  db->connect()->script(db->tables().render("ALTER TABLE rowlock_locks ADD COLUMN later INT"), in(5000));
  CHECK(c->execute(read, with(std::int64_t{1}), in(5000)).rows.empty());
  CHECK(c->execute({"one name", "SELECT 1"}, {}, in(5000)).rows.at(0).at(0) == value(std::int64_t{1}));
  CHECK(c->execute({"one name", "SELECT $1, 2"}, with("x"), in(5000)).rows.at(0).at(1) ==
        value(std::int64_t{2}));
}

TEST_CASE_TEMPLATE("connector: a large statement and a large reply pass", On, ROWLOCK_MYSQL_DRIVERS) {
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

TEST_CASE_TEMPLATE("connector: connections that a function opened", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const url =
      with_database(mysql_server_url(On::kind), as_text(ask(*db->connect(), "SELECT database()")));
  mysql::source const good([&] { return open_by_hand(url, true); });
  auto const c = good.implementation()->connect(in(5000));
  CHECK(c->server_identity() == db->connect()->server_identity());
  CHECK(c->alive());
  CHECK(c->execute(db->book().at("meta_read"), {}, in(5000)).rows.size() == 1);
  mysql::source const one_at_a_time([&] { return open_by_hand(url, false); });
  auto const e = thrown_by([&] { one_at_a_time.implementation()->connect(in(5000)); });
  CHECK(e.reason() == errc::invalid_argument);
  CHECK(says(e, "CLIENT_MULTI_STATEMENTS"));
  mysql::source const nothing([] { return nullptr; });
  CHECK(thrown_by([&] { nothing.implementation()->connect(in(5000)); }).reason() == errc::unreachable);
  mysql::source const throws([]() -> ::sql::Connection* { throw std::runtime_error("no idea"); });
  CHECK(says(thrown_by([&] { throws.implementation()->connect(in(5000)); }), "no idea"));
  mysql::source const refused([&] { return open_by_hand(with_database(url, "nowhere"), true); });
  CHECK(thrown_by([&] { refused.implementation()->connect(in(5000)); }).reason() == errc::schema_missing);
  CHECK_THROWS_AS(mysql::source(std::function<::sql::Connection*()>()), error);
}

TEST_CASE_TEMPLATE("connector: a forked child leaves the parent's session alone", On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto c = db->connect();
  auto const book = db->book();
  c->execute(book.at("meta_read"), {}, in(5000));
  child forked([&](child&) {
    auto const e = thrown_by([&] { c->execute(book.at("meta_read"), {}, in(5000)); });
    bool const good = e.reason() == errc::forked && !c->usable() && !c->alive();
    c.reset();
    return good ? 0 : 1;
  });
  CHECK(forked.join() == 0);
  CHECK(c->alive());
  CHECK(c->execute(book.at("meta_read"), {}, in(5000)).rows.size() == 1);
}

// The connector leaves it open for them: the server would not see the end of this process while they run.
TEST_CASE_TEMPLATE("connector: programs that are started inherit no connection", On, ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_empty_database(On::kind);
  auto const open = [] {
    std::vector<int> out;
    for (int fd = 3; fd < 1024; ++fd) {
      struct stat found {};
      if (::fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) && (::fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0)
        out.push_back(fd);
    }
    return out;
  };
  auto const before = open();
  auto const c = db->connect();
  auto const d = db->connect();
  auto const after = open();  // in a pool fewer than before
  CHECK(std::includes(before.begin(), before.end(), after.begin(), after.end()));
}

TEST_CASE_TEMPLATE("connector: the next host is tried if one does not answer, or says nothing", On,
                   ROWLOCK_MYSQLS) {
  auto const p = parts_of(mysql_server_url(On::kind));
  int const silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  REQUIRE(::bind(silent, reinterpret_cast<sockaddr*>(&here), size) == 0);
  REQUIRE(::listen(silent, 5) == 0);
  REQUIRE(::getsockname(silent, reinterpret_cast<sockaddr*>(&here), &size) == 0);
  auto const url = fmt::format("mysql://{}:{}@127.0.0.1:1,127.0.0.1:{},{}:{}/{}", p.user, p.password,
                               ntohs(here.sin_port), p.host, p.port, p.database);
  auto const start = boot_clock::now();
  CHECK(own_id(*connect_to(url, 9000)) > 0);
  CHECK(boot_clock::now() - start < 9s);
  auto const alone = fmt::format("mysql://u@127.0.0.1:{}/d", ntohs(here.sin_port));
  auto const e = thrown_by([&] { connect_to(alone, 1000); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(boot_clock::now() - start < 15s);
  ::close(silent);
}

TEST_CASE_TEMPLATE("connector: passwords by file and environment", On, ROWLOCK_MYSQLS) {
  auto const p = parts_of(mysql_server_url(On::kind));
  scratch_folder folder;
  std::ofstream(folder.file("password")) << p.password << "\nmore\n";
  std::ofstream(folder.file("empty")).flush();
  auto const url = fmt::format("mysql://{}@{}:{}/{}", p.user, p.host, p.port, p.database);
  CHECK(own_id(*connect_to(url + "?password-file=" + folder.file("password"))) > 0);
  for (auto const* bad : {"empty", "nosuch"}) {
    auto const e = thrown_by([&] { connect_to(url + "?password-file=" + folder.file(bad)); });
    CHECK(e.reason() == errc::invalid_argument);
    CHECK(says(e, folder.file(bad)));
  }
  child const other([&](child&) {
    ::setenv("MYSQL_PWD", p.password.c_str(), 1);
    int good = own_id(*connect_to(url)) > 0 ? 0 : 1;
    ::unsetenv("MYSQL_PWD");
    ::setenv("HOME", folder.path().c_str(), 1);
    good += thrown_by([&] { connect_to(url); }).reason() == errc::access_denied ? 0 : 2;
    std::ofstream(folder.file(".my.cnf")) << "[client]\npassword=" << p.password << "\n";
    good += own_id(*connect_to(url)) > 0 ? 0 : 4;
    return good;
  });
  CHECK(const_cast<child&>(other).join() == 0);
}

TEST_CASE_TEMPLATE("connector: encryption is had, or the connection is refused", On, ROWLOCK_MYSQLS) {
  auto const url = mysql_server_url(On::kind);
  // MySQL, and MariaDB since 11.4, make themselves a certificate. [C35]
  bool const encrypts =
      On::kind == kind::mysql ||
      as_text(connect_to(url)->execute({"ssl", "SELECT @@have_ssl"}, {}, in(5000)).rows.at(0).at(0)) == "YES";
  if (encrypts) {
    auto const c = connect_to(url + "?ssl-mode=require");
    CHECK_FALSE(
        as_text(c->execute({"cipher", "SHOW STATUS LIKE 'Ssl_cipher'"}, {}, in(5000)).rows.at(0).at(1))
            .empty());
  } else {
    CHECK(thrown_by([&] { connect_to(url + "?ssl-mode=require"); }).reason() != errc::failed);
    CHECK_THROWS_AS(connect_to(url + "?ssl-mode=require"), error);
  }
  // A certificate that has nothing to do with the server's.
  CHECK_THROWS_AS(connect_to(url + "?ssl-mode=verify&ssl-ca=/etc/ssl/certs/ca-certificates.crt"), error);
}

TEST_CASE_TEMPLATE("connector: wait_for_row waits in the server, and leaves the transaction open", On,
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const holder = db->connect();
  auto const waiter = db->connect();
  auto const third = db->connect();
  auto const& tables = db->tables();
  holder->execute(db->book().at("lock_insert_free"), with("n", "row_lock"), in(5000));
  backend::statement const lock{"lock",
                                tables.render("SELECT 1 FROM rowlock_locks WHERE name = $1 FOR UPDATE")};
  backend::statement const look{
      "look", tables.render("SELECT 1 FROM rowlock_locks WHERE name = $1 FOR UPDATE SKIP LOCKED")};
  auto const is_locked = [&] { return third->execute(look, lock_parameters("n"), in(5000)).rows.empty(); };
  auto const wait = [&](int ms, std::stop_token stop = {}) {
    return waiter->wait_for_row(lock, lock_parameters("n"), in(ms), 5s, std::move(stop));
  };
  CHECK(wait(5000).rows.size() == 1);
  CHECK(is_locked());
  waiter->script("ROLLBACK", in(5000));
  CHECK_FALSE(is_locked());

  REQUIRE(holder->wait_for_row(lock, lock_parameters("n"), in(5000), 5s, {}).rows.size() == 1);
  for (int ms : {1, 300, 1600}) {
    auto const start = boot_clock::now();
    auto const e = thrown_by([&] { wait(ms); });
    auto const took = boot_clock::now() - start;
    CHECK(e.reason() == errc::row_locked);
    CHECK(took >= std::chrono::milliseconds(ms) - 5ms);
    CHECK(took < std::chrono::milliseconds(ms) + 900ms);
    REQUIRE(waiter->usable());
  }
  std::stop_source stop;
  auto const waiter_id = own_id(*waiter);
  std::jthread const stopper([&] {
    CHECK(comes_to_wait(*third, waiter_id));
    stop.request_stop();
  });
  auto const start = boot_clock::now();
  CHECK(thrown_by([&] { wait(60'000, stop.get_token()); }).reason() == errc::row_locked);
  CHECK(boot_clock::now() - start < 3s);

  std::jthread const giver([&] {
    std::this_thread::sleep_for(1500ms);  // longer than one of the server's waits
    holder->script("ROLLBACK", in(5000));
  });
  CHECK(wait(20'000).rows.size() == 1);
  CHECK(is_locked());
  waiter->close();
  auto const until = in(5000);
  while (is_locked()) REQUIRE(boot_clock::now() < until);
}

TEST_CASE_TEMPLATE("connector: after a wait_for_row that failed there is no transaction", On,
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const c = db->connect();
  auto const d = db->connect();
  backend::statement const bad{"bad", db->tables().render("SELECT nosuch FROM rowlock_meta FOR UPDATE")};
  CHECK(thrown_by([&] { c->wait_for_row(bad, {}, in(5000), 5s, {}); }).reason() == errc::schema_missing);
  c->script(db->tables().render("UPDATE rowlock_meta SET token_floor = 3"), in(5000));
  CHECK(as_int(ask(*d, db->tables().render("SELECT token_floor FROM rowlock_meta"))) == 3);  // autocommit
}

// T8: on a table of three rows a scan would cost less.
TEST_CASE_TEMPLATE("T8: a renewal locks the rows that it wants and no other, and waits for none", On,
                   ROWLOCK_MYSQL_DRIVERS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const c = db->connect();
  auto const other = db->connect();
  for (std::string const name : {"a", "b", "c"}) {
    c->execute(book.at("lock_insert_free"), with(name, "lease"), in(5000));
    c->execute(book.at("lock_take"), take_parameters(name, "t" + name), in(5000));
  }
  other->script("START TRANSACTION", in(5000));
  other->script(db->tables().render("UPDATE rowlock_locks SET note = 'guarded' WHERE name = 'a'"), in(5000));
  auto const start = boot_clock::now();
  c->script("START TRANSACTION", in(5000));
  auto const wanted = with(
      R"([{"name":"a","term":"ta"},{"name":"b","term":"tb"},{"name":"c","term":"another"},{"name":"z","term":"tz"}])");
  auto const due = c->execute(book.at("lock_renew_due"), wanted, in(5000));
  REQUIRE(due.rows.size() == 1);
  CHECK(as_text(due.rows[0][0]) == "b");
  CHECK(c->execute(book.at("lock_renew"), with(R"([{"name":"b","term":"tb"}])"), in(5000)).affected == 1);
  CHECK(boot_clock::now() - start < 900ms);
  // "c" has another term: it was looked at, and let go.
  CHECK(other->execute(book.at("lock_release"), with("c", "tc"), in(5000)).affected == 1);
  c->script("COMMIT", in(5000));
}

// A floor that is raised while a take waits for the row: a sub-select that is planned as a constant is read
// before.
TEST_CASE_TEMPLATE("B4, B39: the token floor is read after the wait for the row", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const holder = db->connect();
  auto const taker = db->connect();
  auto const reaper = db->connect();
  auto const run = [&](backend::connection& c, char const* sql) {
    c.script(db->tables().render(sql), in(5000));
  };
  auto const token = [&](char const* table) {
    return as_int(
        ask(*reaper, db->tables().render(std::string("SELECT token FROM ") + table + " WHERE name = 'n'")));
  };
  holder->execute(book.at("lock_insert_free"), with("n", "lease"), in(5000));
  holder->execute(book.at("token_insert"), with("n"), in(5000));
  auto const taker_id = own_id(*taker);
  auto const wait_behind = [&](char const* lock, auto const& statement) {
    run(*holder, "START TRANSACTION");
    run(*holder, lock);
    std::jthread const waiter(statement);
    REQUIRE(comes_to_wait(*reaper, taker_id));
    run(*reaper, "UPDATE rowlock_meta SET token_floor = token_floor + 6000000000000000");
    run(*holder, "ROLLBACK");
  };
  wait_behind("SELECT name FROM rowlock_locks WHERE name = 'n' FOR UPDATE", [&] {
    CHECK(taker->execute(book.at("lock_take"), take_parameters("n", "t"), in(5000)).affected == 1);
  });
  CHECK(token("rowlock_locks") == 6000000000000001);
  wait_behind("SELECT name FROM rowlock_tokens WHERE name = 'n' FOR UPDATE",
              [&] { CHECK(taker->execute(book.at("token_draw"), with("n"), in(5000)).affected == 1); });
  CHECK(token("rowlock_tokens") == 12000000000000001);
}

TEST_CASE_TEMPLATE("B18, B33: a renewal that waited behind another does not move the expiry back", On,
                   ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const holder = db->connect();
  auto const late = db->connect();
  holder->execute(book.at("lock_insert_free"), with("n", "lease"), in(5000));
  holder->execute(book.at("lock_take"), take_parameters("n", "t", 10'000), in(5000));
  holder->script("START TRANSACTION", in(5000));
  holder->script(db->tables().render("UPDATE rowlock_locks SET renewals = renewals + 1"), in(5000));
  auto const expires = [&] {
    return as_text(ask(*holder, db->tables().render("SELECT concat(expires_at) FROM rowlock_locks")));
  };
  std::string prolonged;
  auto const watch = db->connect();
  auto const late_id = own_id(*late);
  for (auto const* statement : {"lock_renew", "lock_extend"}) {
    std::jthread waiter([&, statement] {
      auto const p = statement == std::string("lock_renew") ? with(R"([{"name":"n","term":"t"}])")
                                                            : with("n", "t", std::int64_t{10'000});
      CHECK(late->execute(book.at(statement), p, in(5000)).affected == 1);
    });
    REQUIRE(comes_to_wait(*watch, late_id));
    holder->script(
        db->tables().render("UPDATE rowlock_locks SET expires_at = utc_timestamp(6) + INTERVAL 10 SECOND"),
        in(5000));
    prolonged = expires();
    holder->script("COMMIT", in(5000));
    waiter.join();
    CHECK(expires() == prolonged);
    holder->script("START TRANSACTION", in(5000));
    holder->script(db->tables().render("UPDATE rowlock_locks SET renewals = renewals + 1"), in(5000));
  }
  holder->script("ROLLBACK", in(5000));
}

TEST_CASE_TEMPLATE(
    "T1, T5: an INSERT that meets a row says 2, changes no lock of another's and is rolled back", On,
    ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const book = db->book();
  auto const c = db->connect();
  auto parameters = take_parameters("n", "t1");
  parameters.resize(11);
  parameters[1] = std::string("unique_insert");
  CHECK(c->execute(book.at("unique_take"), parameters, in(5000)).affected == 1);
  parameters[2] = std::string("t2");
  c->script("START TRANSACTION", in(5000));
  CHECK(c->execute(book.at("unique_take"), parameters, in(5000)).affected == 2);
  c->script("ROLLBACK", in(5000));
  auto const row = c->execute(book.at("lock_read"), with("n"), in(5000)).rows.at(0);
  CHECK(as_text(row[2]) == "t1");
  CHECK(as_int(row[8]) == 0);
}

}  // namespace rowlock::test
