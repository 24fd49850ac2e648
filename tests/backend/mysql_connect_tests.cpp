// Connections to MySQL and MariaDB: how they are made, and whose they are.

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
#include "backend/mysql_tools.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"
#include "support/innodb.hpp"

namespace rowlock::test {

using backend::as_int;
using backend::as_text;
using backend::value;
using namespace std::chrono_literals;

TEST_CASE_TEMPLATE("connector: connections that a function opened", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto const url =
      with_database(mysql_server_url(On::kind), as_text(ask(*db->connect(), "SELECT database()")));
  mysql::source const good([&] { return open_by_hand(url, true); });
  auto const c = good.implementation()->connect(in(20'000));
  CHECK(c->server_identity() == db->connect()->server_identity());
  CHECK(c->alive());
  CHECK(c->execute(db->book().at("meta_read"), {}, in(20'000)).rows.size() == 1);
  mysql::source const one_at_a_time([&] { return open_by_hand(url, false); });
  auto const e = thrown_by([&] { one_at_a_time.implementation()->connect(in(20'000)); });
  CHECK(e.reason() == errc::invalid_argument);
  CHECK(says(e, "CLIENT_MULTI_STATEMENTS"));
  mysql::source const nothing([] { return nullptr; });
  CHECK(thrown_by([&] { nothing.implementation()->connect(in(20'000)); }).reason() == errc::unreachable);
  mysql::source const throws([]() -> ::sql::Connection* { throw std::runtime_error("no idea"); });
  CHECK(says(thrown_by([&] { throws.implementation()->connect(in(20'000)); }), "no idea"));
  mysql::source const refused([&] { return open_by_hand(with_database(url, "nowhere"), true); });
  CHECK(thrown_by([&] { refused.implementation()->connect(in(20'000)); }).reason() == errc::schema_missing);
  CHECK_THROWS_AS(mysql::source(std::function<::sql::Connection*()>()), error);
}

TEST_CASE_TEMPLATE("connector: a forked child leaves the parent's session alone", On, ROWLOCK_MYSQLS) {
  auto const db = make_database(On::kind);
  auto c = db->connect();
  auto const book = db->book();
  c->execute(book.at("meta_read"), {}, in(20'000));
  child forked([&](child&) {
    auto const e = thrown_by([&] { c->execute(book.at("meta_read"), {}, in(20'000)); });
    bool const good = e.reason() == errc::forked && !c->usable() && !c->alive();
    c.reset();
    return good ? 0 : 1;
  });
  CHECK(forked.join() == 0);
  CHECK(c->alive());
  CHECK(c->execute(book.at("meta_read"), {}, in(20'000)).rows.size() == 1);
}

// The connector leaves it open for them: the server would not see the end of this process while they run.
TEST_CASE_TEMPLATE("connector: programs that are started inherit no connection", On, ROWLOCK_MYSQLS) {
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
  CHECK(own_id(*connect_to(url, 18'000)) > 0);
  CHECK(boot_clock::now() - start < 18s);
  auto const alone = fmt::format("mysql://u@127.0.0.1:{}/d", ntohs(here.sin_port));
  auto const e = thrown_by([&] { connect_to(alone, 1000); });
  CHECK(e.reason() == errc::unreachable);
  CHECK(boot_clock::now() - start < 40s);
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
    std::ofstream(folder.file(".my.cnf"))
        << "[mysqld]\npassword=no\n[client]\nhost=nowhere\npassword='" << p.password << "' # mine\n";
    good += own_id(*connect_to(url)) > 0 ? 0 : 8;
    return good;
  });
  CHECK(const_cast<child&>(other).join() == 0);
}

TEST_CASE_TEMPLATE("connector: encryption is had, or the connection is refused", On, ROWLOCK_MYSQLS) {
  auto const url = mysql_server_url(On::kind);
  // MySQL, and MariaDB since 11.4, make themselves a certificate. [C35]
  bool const encrypts =
      On::kind == kind::mysql ||
      as_text(connect_to(url)->execute({"ssl", "SELECT @@have_ssl"}, {}, in(20'000)).rows.at(0).at(0)) ==
          "YES";
  if (encrypts) {
    auto const c = connect_to(url + "?ssl-mode=require");
    CHECK_FALSE(
        as_text(c->execute({"cipher", "SHOW STATUS LIKE 'Ssl_cipher'"}, {}, in(20'000)).rows.at(0).at(1))
            .empty());
  } else {
    CHECK(thrown_by([&] { connect_to(url + "?ssl-mode=require"); }).reason() != errc::failed);
    CHECK_THROWS_AS(connect_to(url + "?ssl-mode=require"), error);
  }
  // A certificate that has nothing to do with the server's.
  CHECK_THROWS_AS(connect_to(url + "?ssl-mode=verify&ssl-ca=/etc/ssl/certs/ca-certificates.crt"), error);
}

// The client library would read it after all that the URL has set.
TEST_CASE("C13: connector: whom to trust says the URL, and not the user's option file <mariadb>") {
  database_server const server(server_kind::mariadb, {.tls = true});
  auto const certificate = as_text(ask(*connect_to(server.address()), "SELECT @@ssl_cert"));
  auto const p = parts_of(server.address());
  auto const url =
      fmt::format("mysql://{}@{}:{}/{}?ssl-mode=verify&ssl-ca=", p.user, p.host, p.port, p.database);
  scratch_folder const folder;
  std::ofstream(folder.file(".my.cnf"))
      << "[client]\npassword=" << p.password << "\nssl-ca=" << certificate << "\n";
  child careless([&](child&) {
    ::setenv("HOME", folder.path().c_str(), 1);
    int const good = own_id(*connect_to(url + certificate)) > 0 ? 0 : 1;
    auto const e = thrown_by([&] { connect_to(url + "/etc/ssl/certs/ca-certificates.crt"); });
    return good + (e.reason() == errc::unreachable ? 0 : 2);
  });
  CHECK(careless.join() == 0);
}

}  // namespace rowlock::test
