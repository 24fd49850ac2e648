// What mysql:// URLs say.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <rowlock/mysql.hpp>
#include <sstream>

#include "backend/child.hpp"
#include "backend/database.hpp"
#include "backend/mysql/option_file.hpp"
#include "backend/mysql/url.hpp"

namespace rowlock::test {
namespace {

using backend::mysql::read_url;
using backend::mysql::tls;

std::string refusal(std::string const& url) {
  auto const e = thrown_by([&] { read_url(url); });
  CHECK(e.reason() == errc::invalid_argument);
  return e.what();
}

bool contains(std::string const& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("mysql url: hosts, ports, user, password and database, percent-decoded") {
  auto const s = read_url("mysql://m%40x:p%3Aw%2f%25@db1:3307,db2,[::1]:99/app%20one?ssl-mode=require");
  REQUIRE(s.endpoints.size() == 3);
  CHECK(s.endpoints[0].host == "db1");
  CHECK(s.endpoints[0].port == 3307);
  CHECK(s.endpoints[1].host == "db2");
  CHECK(s.endpoints[1].port == 3306);
  CHECK(s.endpoints[2].host == "::1");
  CHECK(s.endpoints[2].port == 99);
  CHECK(s.user == "m@x");
  CHECK(s.password() == "p:w/%");
  CHECK(s.database == "app one");
  CHECK(s.encryption == tls::required);
  CHECK(s.describe() == "mysql host=db1,db2,::1 port=3307,3306,99 db=app one user=m@x");
  CHECK_FALSE(read_url("mariadb://db/app").user.empty());
  CHECK(read_url("mysql://u:@db/app").password() == "");
}

TEST_CASE("mysql url: a socket instead of a host") {
  auto const s = read_url("mysql://u@/app?socket=/run/my%20sql.sock");
  CHECK(s.endpoints.empty());
  CHECK(s.socket == "/run/my sql.sock");
  CHECK(s.describe() == "mysql socket=/run/my sql.sock db=app user=u");
}

TEST_CASE("mysql url: what can't be used is said, without the URL") {
  for (auto const* bad : {"mysql://u:secret1@/d", "mysql://u:secret1@h:x/d", "mysql://u:secret1@h:0/d",
                          "mysql://u:secret1@h:65536/d", "mysql://u:secret1@h/d/e", "mysql://u:se cret1@h/d",
                          "mysql://u:secret1%@h/d", "mysql://u:secret1@h,,i/d", "mysql://u:secret1@h/d#x",
                          "mysql://u:secret1%00@h/d", "mysql://u:sec@secret1@h/d", "mysql:u:secret1",
                          "mysql://u:secret1@h/d?ssl-mode=verify", "mysql://u:secret1@h/d?ssl-ca=/x",
                          "mysql://u:secret1@h/d?ssl-mode=require&ssl-cert=/x",
                          "mysql://u:secret1@h/d?ssl-mode=require&ssl-ca=/x"}) {
    CAPTURE(bad);
    CHECK_FALSE(contains(refusal(bad), "secret1"));
  }
  CHECK(contains(refusal("mysql://h/d?sslmode=require"),
                 "'sslmode'; there are: socket, password-file, ssl-mode"));
  CHECK(contains(refusal("mysql://h/d?password=secret1"), "unknown option 'password'"));
  CHECK_FALSE(contains(refusal("mysql://h/d?password=secret1"), "secret1"));
  CHECK(contains(refusal("mysql://h/d?ssl-mode=preferred"), "disable, require"));
  CHECK(contains(refusal("mysql://u:p@ss@h/d"), "%40"));
}

TEST_CASE("mysql url: a password file that is no file is refused, and not waited for; so are certificates") {
  scratch_folder const folder;
  auto const there = folder.file("there");
  std::string const plain = "mysql://u@h/d?password-file=" + there;
  // In a child, which does not wait for ever.
  auto const refuses = [&](std::string const& url, std::string_view why) {
    child reader([&](child&) {
      ::alarm(20);
      return contains(refusal(url), why) ? 0 : 1;
    });
    return reader.join() == 0;
  };
  CHECK(refuses(plain, there + ": No such file"));
  SUBCASE("a file") {
    std::ofstream(there) << "secret\r\nmore\n";
    CHECK(read_url(plain).password() == "secret");
    std::ofstream(there) << "\n";
    CHECK(read_url(plain).password() == "");
    std::ofstream(there).flush();
    CHECK(refuses(plain, "it is empty"));
    // Of some gigabytes, as far as anybody can see.
    REQUIRE(::truncate(there.c_str(), off_t{1} << 33) == 0);
    CHECK(refuses(plain, there + ": it is longer than 1 MiB"));
    return;
  }
  SUBCASE("a pipe") { REQUIRE(::mkfifo(there.c_str(), 0600) == 0); }
  SUBCASE("a folder") { std::filesystem::create_directory(there); }
  SUBCASE("a device") { std::filesystem::create_symlink("/dev/zero", there); }
  CHECK(refuses(plain, there + ": it is no regular file"));
  CHECK(refuses("mysql://u@h/d?ssl-mode=verify&ssl-ca=" + there, "ssl-ca=" + there + " is no regular file"));
  auto const with_key = [&](std::string const& cert, std::string const& key) {
    return fmt::format("mysql://u@h/d?ssl-mode=require&ssl-cert={}&ssl-key={}", cert, key);
  };
  CHECK(refuses(with_key(there, "/nosuch"), "ssl-cert=" + there + " is no regular file"));
  CHECK(refuses(with_key("/nosuch", there), "ssl-key=" + there + " is no regular file"));
}

TEST_CASE("mysql option file: the password in group [client], and nothing else") {
  auto const password = [](std::string const& text) {
    std::istringstream in(text);
    return backend::mysql::password_in(in);
  };
  CHECK(password("[client]\npassword=secret") == "secret");
  CHECK(password("# c\n; c\n\n[mysqld]\npassword=no\n[ client ]\r\nuser=u\r\n password = secret \r\n[mysql]\n"
                 "password=no\n") == "secret");
  CHECK(password("[client]\npassword=one\npassword=two") == "two");
  CHECK(password("[client]\npassword=") == "");
  CHECK(password("[client]\npassword=a b # c") == "a b");
  CHECK(password("[client]\npassword=a#b") == "a");
  CHECK(password("[client]\npassword=\"a#b\" # c") == "a#b");
  CHECK(password("[client]\npassword='a\"# b '") == "a\"# b ");
  CHECK(password("[client]\npassword='it\\'s'") == "it's");
  CHECK(password("[client]\npassword=a\\\\b\\sc\\td\\x") == "a\\b c\td\\x");
  CHECK(password("[client]\npassword='a") == "'a");
  CHECK(password("[client]\npassword==") == "=");
  for (std::string const none : {"", "password=x", "[client]\npassword", "[client]\n#password=x",
                                 "[clients]\npassword=x", "[client]\nssl-password=x", "[client",
                                 "[client\npassword=x", "[client # ]\npassword=x", "[", "[]\npassword=x"}) {
    CAPTURE(none);
    CHECK_FALSE(password(none));
  }
  CHECK(password("[client]\npassword=one\n[client\npassword=two") == "one");
}

TEST_CASE(
    "mysql option file: one that is no file, too long, or anybody's to write is as if it were not there") {
  scratch_folder const home;
  auto const file = home.file(".my.cnf");
  std::string const text = "[client]\npassword=secret\n";
  auto const in_file = [&](std::string const& what, mode_t mode) {
    std::ofstream(file) << what;
    REQUIRE(::chmod(file.c_str(), mode) == 0);
  };
  enum { nothing, found, something_else };
  // In a child, whose HOME it is, and which does not wait for ever.
  auto const finds = [&] {
    child reader([&](child&) {
      ::setenv("HOME", home.path().c_str(), 1);
      ::alarm(20);
      auto const password = backend::mysql::password_of_option_file();
      return !password ? nothing : *password == "secret" ? found : something_else;
    });
    return reader.join();
  };
  CHECK(finds() == nothing);
  SUBCASE("a file") {
    in_file(text, 0664);
    CHECK(finds() == found);
  }
  SUBCASE("a link to one") {
    std::ofstream(home.file("elsewhere")) << text;
    std::filesystem::create_symlink(home.file("elsewhere"), file);
    CHECK(finds() == found);
  }
  SUBCASE("a file that anybody may write to") {
    in_file(text, 0666);
    CHECK(finds() == nothing);
  }
  SUBCASE("a file of a mebibyte, and a longer one") {
    constexpr std::size_t mebibyte = 1024 * 1024;
    in_file(std::string(mebibyte - text.size(), '\n') + text, 0600);
    CHECK(finds() == found);
    in_file(std::string(mebibyte - text.size() + 1, '\n') + text, 0600);
    CHECK(finds() == nothing);
  }
  SUBCASE("a folder") {
    std::filesystem::create_directory(file);
    CHECK(finds() == nothing);
  }
  SUBCASE("a pipe into which nobody writes") {
    REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
    CHECK(finds() == nothing);
  }
  SUBCASE("what never ends") {
    std::filesystem::create_symlink("/dev/zero", file);
    CHECK(finds() == nothing);
  }
}

TEST_CASE("mysql url: describe() names everything but the password") {
  mysql::source const s("mysql://u:secret1@db.example.org/app");
  CHECK(s.implementation()->describe() == "mysql host=db.example.org port=3306 db=app user=u");
}

}  // namespace rowlock::test
