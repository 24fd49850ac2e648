// PostgreSQL alone: sessions, logins, and replies that do not come.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <rowlock/postgresql.hpp>
#include <thread>
#include <utility>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "support/eventually.hpp"

namespace rowlock::test {
namespace {

using backend::as_int;
using backend::as_text;
using backend::value;
using namespace std::chrono_literals;

std::unique_ptr<backend::connection> connect_to(std::string const& conninfo, int ms = 20'000) {
  return postgresql::source(conninfo).implementation()->connect(in(ms));
}

error connect_error(std::string const& conninfo, int ms = 20'000) {
  return thrown_by([&] { connect_to(conninfo, ms); });
}

value ask(backend::connection& c, std::string const& sql) {
  return c.execute({"ask", sql}, {}, in(20'000)).rows.at(0).at(0);
}

pid_t server_process(backend::connection& c) {
  return static_cast<pid_t>(as_int(ask(c, "SELECT pg_backend_pid()")));
}

// Waits until `other` says that the condition holds.
void wait_until(backend::connection& other, std::string const& condition) {
  auto const until = in(20'000);
  while (as_int(ask(other, "SELECT (" + condition + ")::int")) == 0) REQUIRE(boot_clock::now() < until);
}

// A server process that does not answer, until the end of the scope.
class stopped {
 public:
  explicit stopped(pid_t pid) : pid_(pid) { REQUIRE(::kill(pid_, SIGSTOP) == 0); }
  ~stopped() { ::kill(pid_, SIGCONT); }
  stopped(stopped const&) = delete;
  stopped& operator=(stopped const&) = delete;

 private:
  pid_t pid_;
};

// A port of 127.0.0.1 where connections are taken by the kernel and nobody ever reads them: a stopped server.
class silent_port {
 public:
  silent_port() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(fd_, 8) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = std::to_string(ntohs(address.sin_port));
  }
  ~silent_port() { ::close(fd_); }
  silent_port(silent_port const&) = delete;
  silent_port& operator=(silent_port const&) = delete;
  std::string const& port() const { return port_; }
  /// Nobody listens there any more.
  void shut() { ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
  std::string port_;
};

// A role of the test's own, with the given attributes.
class role {
 public:
  explicit role(std::string const& attributes) : admin_(connect_to(postgresql_conninfo())) {
    admin_->script("CREATE ROLE " + name_ + " " + attributes, in(20'000));
  }
  ~role() { admin_->script("DROP OWNED BY " + name_ + "; DROP ROLE " + name_, in(20'000)); }
  role(role const&) = delete;
  role& operator=(role const&) = delete;
  std::string const& name() const { return name_; }
  std::string conninfo() const { return conninfo_with({{"user", name_}}); }

 private:
  std::string name_ = unique_identifier();
  std::unique_ptr<backend::connection> admin_;
};

}  // namespace

TEST_CASE(
    "postgresql: T11, T12, C93, C97: the session is set up, whatever the role's and the connection's "
    "settings "
    "say") {
  auto const c = connect_to(conninfo_with(
      {{"options",
        "-c synchronous_commit=local -c statement_timeout=1h -c lock_timeout=1h "
        "-c default_transaction_isolation=serializable -c idle_in_transaction_session_timeout=1h "
        "-c quote_all_identifiers=on -c jit=on"}}));
  auto const setting = [&](char const* name) {
    return as_text(ask(*c, fmt::format("SELECT coalesce(current_setting('{}', true), 'none')", name)));
  };
  bool const since_14 = std::stoi(setting("server_version_num")) >= 14'00'00;
  CHECK(setting("transaction_isolation") == "read committed");
  CHECK(setting("synchronous_commit") == "on");
  CHECK(setting("lock_timeout") == "1s");
  CHECK(setting("statement_timeout") == "0");
  CHECK(setting("idle_in_transaction_session_timeout") == "30s");
  CHECK(setting("idle_session_timeout") == (since_14 ? "0" : "none"));
  CHECK(setting("client_connection_check_interval") == (since_14 ? "1s" : "none"));
  CHECK(setting("client_encoding") == "UTF8");
  CHECK(setting("quote_all_identifiers") == "off");  // by which types would have other names for the migrator
  CHECK(setting("application_name") == "rowlock");
  CHECK(setting("jit") == "off");
  auto const strict = connect_to(conninfo_with({{"options", "-c synchronous_commit=remote_apply"}}));
  CHECK(as_text(ask(*strict, "SHOW synchronous_commit")) == "remote_apply");
}

// Its server process is stopped until both have come: then it has the wait queue, and says the time-out.
TEST_CASE(
    "postgresql: C51: a wait queue that is granted in the moment of its time-out is left all the same") {
  auto const db = make_database(kind::postgresql);
  auto const holder = db->connect();
  auto const late = db->connect();
  auto const next = db->connect();
  auto const enter = [&](backend::connection& c, int ms) {
    return c.enter_queue(db->tables(), "x", "who", in(ms), 30s, {});
  };
  REQUIRE(enter(*holder, 20'000) == backend::queue_entry::was_free);
  auto const process = server_process(*late);
  auto comes = std::async(std::launch::async, [&] { return enter(*late, 3000); });
  wait_until(*next,
             "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND pid = " +
                 std::to_string(process));
  {
    stopped const hold(process);
    CHECK(holder->leave_queue(in(20'000)));
    auto const over = in(3100);
    CHECK(eventually([&] { return boot_clock::now() > over; }));
  }
  CHECK(comes.get() == backend::queue_entry::not_mine);
  CHECK(enter(*next, 10'000) == backend::queue_entry::was_free);
}

TEST_CASE("postgresql: a server that does not answer leaves the statement in doubt at the deadline") {
  auto const db = make_database(kind::postgresql);
  auto const c = db->connect();
  auto const book = db->book();
  auto const insert = [&](std::string const& name, int ms) {
    return c->execute(book.at("lock_insert_free"), with(name, "lease"), in(ms));
  };
  insert("prepared", 20'000);
  auto const start = boot_clock::now();
  {
    stopped const hold(server_process(*c));
    auto const e = thrown_by([&] { insert("job", 2000); });
    CHECK(e.reason() == errc::in_doubt);
    CHECK(e.statement() == "lock_insert_free");
  }
  auto const took = boot_clock::now() - start;
  CHECK(took > 1900ms);
  CHECK(took < 20s);
  CHECK(!c->usable());
  // In doubt is the right word: the server goes on with it when it wakes up.
  auto const other = db->connect();
  wait_until(*other, "SELECT count(*) > 0 FROM " + db->tables().table("locks") + " WHERE name = 'job'");
}

TEST_CASE("postgresql: a server that does not answer the preparation has not been told the statement") {
  auto const db = make_database(kind::postgresql);
  auto const c = db->connect();
  stopped const hold(server_process(*c));
  auto const book = db->book();
  auto const e = thrown_by([&] { c->execute(book.at("meta_read"), {}, in(300)); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(!c->usable());
}

TEST_CASE("postgresql: a session that is terminated during a statement leaves it in doubt") {
  auto const c = connect_to(postgresql_conninfo());
  auto const other = connect_to(postgresql_conninfo());
  auto const pid = std::to_string(server_process(*c));
  std::jthread const killer([&] {
    wait_until(*other,
               "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND pid = " + pid + ")");
    other->execute({"kill", "SELECT pg_terminate_backend($1::bigint::int)"},
                   with(std::int64_t{std::stol(pid)}), in(20'000));
  });
  auto const e = thrown_by([&] { c->execute({"sleep", "SELECT pg_sleep(20)"}, {}, in(30'000)); });
  CHECK(e.reason() == errc::in_doubt);
  CHECK(!c->usable());
}

TEST_CASE(
    "postgresql: a session that was terminated while it was idle is unreachable, and nothing was sent") {
  auto const c = connect_to(postgresql_conninfo());
  auto const other = connect_to(postgresql_conninfo());
  backend::statement const whoami{"whoami", "SELECT pg_backend_pid()"};
  auto const pid = std::to_string(as_int(c->execute(whoami, {}, in(20'000)).rows.at(0).at(0)));
  ask(*other, "SELECT pg_terminate_backend(" + pid + ")");
  wait_until(*other, "NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = " + pid + ")");
  CHECK(thrown_by([&] { c->execute(whoami, {}, in(20'000)); }).reason() == errc::unreachable);
  CHECK(!c->usable());
  CHECK(thrown_by([&] { c->execute(whoami, {}, in(20'000)); }).reason() == errc::unreachable);
}

TEST_CASE("postgresql: integers of every width") {
  auto const c = connect_to(postgresql_conninfo());
  auto const r = c->execute({"widths", "SELECT 1::smallint, 2::int, 3::bigint, '4'::text"}, {}, in(20'000));
  CHECK(r.rows.at(0) == backend::row{std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::string("4")});
}

TEST_CASE("postgresql: a statement that an administrator cancels is a conflict, and the session goes on") {
  auto const c = connect_to(postgresql_conninfo());
  auto const other = connect_to(postgresql_conninfo());
  auto const pid = std::to_string(server_process(*c));
  std::jthread const killer([&] {
    wait_until(*other,
               "EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND pid = " + pid + ")");
    other->execute({"cancel", "SELECT pg_cancel_backend(" + pid + ")"}, {}, in(20'000));
  });
  CHECK(thrown_by([&] { c->script("SELECT pg_sleep(20)", in(30'000)); }).reason() == errc::conflict);
  CHECK(c->usable());
}

TEST_CASE("postgresql: serialization failures and deadlocks are conflicts") {
  auto const db = make_database(kind::postgresql);
  auto const c = db->connect();
  auto const raise = [&](std::string const& state) {
    return thrown_by([&] {
      c->script("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '" + state + "'; END $$", in(20'000));
    });
  };
  for (std::string const state : {"40001", "40P01"}) {
    auto const e = raise(state);
    CHECK(e.reason() == errc::conflict);
    CHECK(e.sqlstate() == state);
  }
  CHECK(raise("53100").reason() == errc::storage_full);
  CHECK(raise("XX001").reason() == errc::failed);
  CHECK(c->usable());
}

TEST_CASE("postgresql: a read-only session is read_only") {
  auto const db = make_database(kind::postgresql);
  auto const c = db->connect();
  c->script("SET default_transaction_read_only = on", in(20'000));
  auto const book = db->book();
  auto const e =
      thrown_by([&] { c->execute(book.at("lock_take"), take_parameters("job", "t"), in(20'000)); });
  CHECK(e.reason() == errc::read_only);
  CHECK(e.sqlstate() == "25006");
  CHECK_FALSE(c->usable());
  auto const d = db->connect();
  d->script("SET default_transaction_read_only = on", in(20'000));
  std::vector<backend::value> const row{std::string("x"), std::int64_t{0}};
  CHECK(thrown_by([&] { d->wait_for_row(book.at("row_wait"), row, in(1000), 5s, {}); }).reason() ==
        errc::read_only);
  CHECK_FALSE(d->usable());
}

TEST_CASE("postgresql: a missing grant is access_denied") {
  auto const db = make_database(kind::postgresql);
  role const stranger("LOGIN");
  db->connect()->script("GRANT USAGE ON SCHEMA " + db->tables().schema + " TO " + stranger.name(),
                        in(20'000));
  auto const c = connect_to(stranger.conninfo());
  auto const book = db->book();
  auto const e = thrown_by([&] { c->execute(book.at("meta_read"), {}, in(20'000)); });
  CHECK(e.reason() == errc::access_denied);
  CHECK(says(e, "grant"));
  CHECK(c->usable());
}

TEST_CASE("postgresql: text that is not UTF-8, or that the database's encoding lacks, is invalid_argument") {
  auto const db = make_database(kind::postgresql);
  auto const book = db->book();
  auto const c = db->connect();
  auto const bad = thrown_by([&] { c->execute(book.at("lock_read"), with("\xff"), in(20'000)); });
  CHECK(bad.reason() == errc::invalid_argument);

  auto const latin = unique_identifier();
  c->script("CREATE DATABASE " + latin + " TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
            in(20'000));
  {
    auto const l = connect_to(conninfo_with({{"dbname", latin}}));
    CHECK(l->server_identity() != c->server_identity());
    backend::statement const echo{"echo", "SELECT $1::text"};
    CHECK(as_text(l->execute(echo, with("\xC3\xA4"), in(20'000)).rows.at(0).at(0)) == "\xC3\xA4");
    auto const e = thrown_by([&] { l->execute(echo, with("\xF0\x9F\x94\x92"), in(20'000)); });
    CHECK(e.reason() == errc::invalid_argument);
    CHECK(l->usable());
  }
  c->script("DROP DATABASE " + latin + " WITH (FORCE)", in(20'000));
}

TEST_CASE("postgresql: prepared statements that the server forgot are prepared again") {
  auto const db = make_database(kind::postgresql);
  auto const c = db->connect();
  auto const book = db->book();
  c->execute(book.at("meta_read"), {}, in(20'000));
  c->script("DEALLOCATE ALL", in(20'000));
  CHECK(c->execute(book.at("meta_read"), {}, in(20'000)).rows.size() == 1);

  backend::statement const all{"all", db->tables().render("SELECT oldest_reader FROM rowlock_meta")};
  auto const number = as_int(c->execute(all, {}, in(20'000)).rows.at(0).at(0));
  c->script(db->tables().render("ALTER TABLE rowlock_meta ALTER COLUMN oldest_reader TYPE text"), in(20'000));
  CHECK(as_text(c->execute(all, {}, in(20'000)).rows.at(0).at(0)) == std::to_string(number));
}

TEST_CASE("postgresql: one name for two texts is two statements") {
  auto const c = connect_to(postgresql_conninfo());
  CHECK(as_int(c->execute({"s", "SELECT 1"}, {}, in(20'000)).rows.at(0).at(0)) == 1);
  CHECK(as_int(c->execute({"s", "SELECT 2"}, {}, in(20'000)).rows.at(0).at(0)) == 2);
}

TEST_CASE("postgresql: COMMIT of a transaction that has failed is an error") {
  auto const c = connect_to(postgresql_conninfo());
  c->script("BEGIN", in(20'000));
  CHECK(thrown_by([&] { c->script("SELECT 1/0", in(20'000)); }).reason() == errc::failed);
  CHECK(thrown_by([&] { c->script("COMMIT", in(20'000)); }).reason() == errc::conflict);
  CHECK(c->usable());
  c->script("BEGIN", in(20'000));
  CHECK(thrown_by([&] { c->script("SELECT 1/0", in(20'000)); }).reason() == errc::failed);
  CHECK_NOTHROW(c->script(" rollback", in(20'000)));
}

TEST_CASE("postgresql: notices and warnings of the server are no error") {
  auto const c = connect_to(postgresql_conninfo());
  CHECK_NOTHROW(c->script("DO $$ BEGIN RAISE NOTICE 'n'; RAISE WARNING 'w'; END $$", in(20'000)));
  CHECK(c->usable());
}

TEST_CASE("postgresql: COPY can't be used, and does not hang") {
  auto const c = connect_to(postgresql_conninfo());
  CHECK_THROWS_AS(c->script("COPY (SELECT 1) TO STDOUT", in(20'000)), error const&);
}

TEST_CASE("postgresql: a large statement and a large reply pass") {
  auto const c = connect_to(postgresql_conninfo());
  std::string const text(4 << 20, 'x');
  backend::statement const echo{"echo", "SELECT $1::text"};
  CHECK(as_text(c->execute(echo, with(text), in(20'000)).rows.at(0).at(0)) == text);
}

TEST_CASE("postgresql: refused logins are access_denied") {
  CHECK(connect_error(conninfo_with({{"user", "nobody_of_this_name"}})).reason() == errc::access_denied);
  role const no_login("NOLOGIN");
  auto const e = connect_error(no_login.conninfo());
  CHECK(e.reason() == errc::access_denied);
  CHECK(e.sqlstate() == "28000");
  CHECK(says(e, no_login.name()));
  CHECK(!says(e, ".c:"));
}

TEST_CASE("postgresql: a missing database is schema_missing") {
  auto const e = connect_error(conninfo_with({{"dbname", "none_of_this_name"}}));
  CHECK(e.reason() == errc::schema_missing);
  CHECK(says(e, "none_of_this_name"));
  CHECK(says(e, "create the database"));
}

TEST_CASE("postgresql: no more connections is too_many_connections") {
  role const limited("LOGIN CONNECTION LIMIT 1");
  auto const first = connect_to(limited.conninfo());
  auto const e = connect_error(limited.conninfo());
  CHECK(e.reason() == errc::too_many_connections);
  CHECK(e.retryable());
}

TEST_CASE("postgresql: nobody there is unreachable") {
  silent_port nobody;
  nobody.shut();
  auto const e = connect_error("host=127.0.0.1 dbname=x user=u port=" + nobody.port());
  CHECK(e.reason() == errc::unreachable);
  CHECK(says(e, nobody.port()));
  CHECK(connect_error("host=/nonexistent dbname=x user=u").reason() == errc::unreachable);
}

TEST_CASE("postgresql: a server that says nothing is unreachable at the deadline, or at connect_timeout") {
  silent_port const silent;
  auto const timed = [&](std::string const& more, int ms) {
    auto const start = boot_clock::now();
    CHECK(connect_error("host=127.0.0.1 dbname=x user=u port=" + silent.port() + more, ms).reason() ==
          errc::unreachable);
    return boot_clock::now() - start;
  };
  auto const by_deadline = timed("", 300);
  CHECK(by_deadline > 250ms);
  CHECK(by_deadline < 15s);
  auto const by_option = timed(" connect_timeout=2", 40'000);
  CHECK(by_option > 1900ms);
  CHECK(by_option < 30s);
}

TEST_CASE("postgresql: the next host is tried if one says nothing") {
  silent_port const silent;
  auto const good = [](char const* keyword, char const* otherwise) {
    PGconn* c = PQconnectdb(postgresql_conninfo().c_str());
    std::string const text = std::string(keyword) == "host" ? PQhost(c) : PQport(c);
    PQfinish(c);
    return text.empty() ? otherwise : text;
  };
  auto const c = connect_to(conninfo_with({{"host", "127.0.0.1," + good("host", "127.0.0.1")},
                                           {"port", silent.port() + "," + good("port", "5432")}}),
                            2000);
  CHECK(as_int(ask(*c, "SELECT 1")) == 1);
}

TEST_CASE("postgresql: connection strings that libpq can't read are invalid, and no password is told") {
  auto const make = [](std::string const& conninfo) {
    return thrown_by([&] { postgresql::source{conninfo}; });
  };
  for (std::string const conninfo :
       {"password=sec ret", "postgresql://u:sec@ret@h/db", "postgresql://u:sec/ret@h/db",
        "postgresql://u:x@h/db?sec=ret", "nonsense=sec password=ret", "host=h password='sec ret"}) {
    auto const e = make(conninfo);
    CHECK(e.reason() == errc::invalid_argument);
    CHECK(!says(e, "sec"));
    CHECK(!says(e, "ret"));
  }
}

TEST_CASE("postgresql: options that libpq can't use are invalid at once, not unreachable for ever") {
  for (std::string const conninfo :
       {"host=h port=abc", "host=h port=70000", "host=h sslmode=requre", "host=a,b port=1,2,3",
        "host=h target_session_attrs=writable", "service=none_of_this_name"}) {
    auto const e = thrown_by([&] { postgresql::source{conninfo}; });
    CHECK_MESSAGE(e.reason() == errc::invalid_argument, conninfo);
  }
  CHECK(says(thrown_by([&] { postgresql::source{"host=h sslmode=requre"}; }), "requre"));
  for (std::string const conninfo :
       {"", "host=h", "host=a,b,c port=1,2,3", "postgresql://a,b:2/db?sslmode=require", "hostaddr=127.0.0.1",
        "host=h hostaddr=127.0.0.1 port=1"})
    CHECK_NOTHROW(postgresql::source{conninfo});
}

TEST_CASE("postgresql: describe() names everything but the password") {
  postgresql::source const s("postgresql://me:secret@db.example:5433/locks?sslmode=disable");
  auto const text = s.implementation()->describe();
  for (char const* part : {"me", "db.example", "5433", "locks"}) CHECK(text.find(part) != std::string::npos);
  CHECK(text.find("secret") == std::string::npos);
  silent_port nobody;
  nobody.shut();
  auto const e = connect_error("postgresql://me:secret@127.0.0.1:" + nobody.port() + "/locks");
  CHECK(e.reason() == errc::unreachable);
  CHECK(!says(e, "secret"));
}

TEST_CASE("postgresql: connections that a function opened") {
  postgresql::source const good([] { return PQconnectdb(postgresql_conninfo().c_str()); });
  auto const c = good.implementation()->connect(in(20'000));
  CHECK(as_text(ask(*c, "SHOW lock_timeout")) == "1s");
  CHECK(c->server_identity() == connect_to(postgresql_conninfo())->server_identity());

  auto const problem = [](auto open) {
    return thrown_by([&] { postgresql::source(open).implementation()->connect(in(20'000)); });
  };
  CHECK(problem([]() -> PGconn* { return nullptr; }).reason() == errc::unreachable);
  auto const thrown = problem([]() -> PGconn* { throw std::runtime_error("no money"); });
  CHECK(thrown.reason() == errc::unreachable);
  CHECK(says(thrown, "no money"));
  CHECK(problem([] { return PQconnectdb("host=/nonexistent"); }).reason() == errc::unreachable);
  auto const busy = problem([] {
    PGconn* begun = PQconnectdb(postgresql_conninfo().c_str());
    PQclear(PQexec(begun, "BEGIN"));
    return begun;
  });
  CHECK(busy.reason() == errc::invalid_argument);
}

TEST_CASE("postgresql: a forked child leaves the parent's session alone") {
  auto c = connect_to(postgresql_conninfo());
  auto d = connect_to(postgresql_conninfo());
  child other([&](child&) {
    if (thrown_by([&] { ask(*c, "SELECT 1"); }).reason() != errc::forked) return 1;
    c->close();
    if (c->usable()) return 2;
    c.reset();
    d.reset();  // not closed: its destructor sees the fork itself
    return as_int(ask(*connect_to(postgresql_conninfo()), "SELECT 7")) == 7 ? 0 : 3;
  });
  CHECK(other.join() == 0);
  CHECK(as_int(ask(*c, "SELECT 1")) == 1);
  CHECK(as_int(ask(*d, "SELECT 1")) == 1);
}

}  // namespace rowlock::test
