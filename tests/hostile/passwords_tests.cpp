// What a server, or whoever answers in its place, gets out of us by asking.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "cli/program.hpp"
#include "hostile/fake_server.hpp"
#include "support/database_server.hpp"

using namespace rowlock::test;
using rowlock::boot_clock;

extern "C" int PQlibVersion(void);

namespace {

// An older libpq sends the password to any server, as that asks for it: doctor's tests have the warning.
bool const libpq_can_refuse = PQlibVersion() >= 160000;

std::string const password = "a-password-to-steal";

std::string mysql_at(fake_server const& s, std::string const& more = "") {
  return fmt::format("mysql://u:{}@127.0.0.1:{}/d{}", password, s.port(), more);
}

std::string postgresql_at(fake_server const& s) {
  return fmt::format("postgresql://u:{}@127.0.0.1:{}/d", password, s.port());
}

finished list(std::string const& url, std::string const& input = {}) {
  return run({rowlock_program, "list"}, {{"ROWLOCK_DB", url}}, input);
}

bool is_plain(std::string const& text) {
  for (char const c : text)
    if ((static_cast<unsigned char>(c) < 32 && c != '\n') || c == 127) return false;
  return true;
}

constexpr char const* bad_methods[] = {"mysql_clear_password", "mysql_old_password", "dialog",
                                       "auth_gssapi_client"};

}  // namespace

TEST_CASE("C13: mysql: a server that greets with a method that gives the password away gets nothing") {
  for (std::string const method : bad_methods) {
    CAPTURE(method);
    fake_server* self = nullptr;
    fake_server server([&](peer& p) {
      p.say(mysql_says::greeting(method));
      self->note(p.hear_all());
    });
    self = &server;
    auto const done = list(mysql_at(server), "typed\n");
    CHECK(done.status == 77);
    CHECK(done.says("give the account another one"));
    CHECK(server.noted().empty());
  }
}

TEST_CASE("C13: mysql: a server that asks for such a method later gets nothing") {
  for (std::string const method : bad_methods) {
    CAPTURE(method);
    fake_server* self = nullptr;
    fake_server server([&](peer& p) {
      p.say(mysql_says::greeting());
      hear_mysql_packet(p);
      // What the dialog plugin would print, and ask for.
      p.say(mysql_says::log_in_otherwise(2, method) + mysql_says::packet(3, "\4\x1b]0;owned\7Password: "));
      self->note(p.hear_all());
    });
    self = &server;
    auto const done = list(mysql_at(server), "typed\n");
    CHECK(done.status == 77);
    CHECK(is_plain(done.err));
    CHECK(done.out.empty());
    CHECK(server.noted().empty());
  }
}

TEST_CASE("C13: mysql: the scramble of 1998 is refused to a server that knows no other") {
  fake_server* self = nullptr;
  fake_server server([&](peer& p) {
    p.say(mysql_says::greeting());
    hear_mysql_packet(p);
    p.say(mysql_says::packet(2, "\xfe"));
    self->note(p.hear_all());
  });
  self = &server;
  CHECK(list(mysql_at(server)).status != 0);
  CHECK(server.noted().empty());
}

TEST_CASE("C13: mysql: ssl-mode=verify, and a server that has no encryption, gets no password") {
  for (std::string const method : {"mysql_clear_password", "mysql_native_password"}) {
    fake_server* self = nullptr;
    fake_server server([&](peer& p) {
      p.say(mysql_says::greeting(method));
      self->note(p.hear_all());
    });
    self = &server;
    scratch_folder const folder;
    auto const ca = folder.file("ca.pem");
    REQUIRE(run({"sh", "-c",
                 "openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=x -out " + ca})
                .status == 0);
    auto const done = list(mysql_at(server, "?ssl-mode=verify&ssl-ca=" + ca));
    CHECK(done.status != 0);
    CHECK(server.noted().find(password) == std::string::npos);
    CHECK(server.noted().empty());
  }
}

TEST_CASE("C13: mysql: a server that asks for a file instead of answering gets none") {
  scratch_folder const folder;
  auto const file = folder.file("secret");
  environment more;
  SUBCASE("") {}
  SUBCASE("also if the user's option file would give it one") {
    more["HOME"] = folder.path().string();
    std::ofstream(folder.file(".my.cnf")) << "[client]\npassword=" << password << "\nlocal-infile=1\n";
  }
  REQUIRE(run({"sh", "-c", "echo the-secret > " + file}).status == 0);
  fake_server* self = nullptr;
  fake_server server([&](peer& p) {
    p.say(mysql_says::greeting());
    hear_mysql_packet(p);
    p.say(mysql_says::ok(2));
    hear_mysql_packet(p);
    p.say(mysql_says::packet(1, '\xfb' + file));
    self->note(p.hear(200));
  });
  self = &server;
  more["ROWLOCK_DB"] =
      more.empty() ? mysql_at(server) : fmt::format("mysql://u@127.0.0.1:{}/d", server.port());
  CHECK(run({rowlock_program, "list"}, more).status != 0);
  CHECK(server.noted().find("the-secret") == std::string::npos);
}

TEST_CASE("C13: what a server says reaches the terminal escaped") {
  std::string const evil =
      "no\x1b]0;owned\7\x1b[2J\r\n\xff\xc2\x9b"
      "31m, \xc3\xa4";
  fake_server mysql([&](peer& p) { p.say(mysql_says::refused(0, evil)); });
  fake_server postgresql([&](peer& p) {
    hear_postgresql_start(p);
    p.say(postgresql_says::refused(evil));
  });
  for (auto const& url : {mysql_at(mysql), postgresql_at(postgresql)})
    for (words const& command : {words{"list"}, words{"doctor", "--timeout", "3s"}, words{"doctor", "--json"},
                                 words{"run", "--wait", "1s", "n", "--", "true"}}) {
      words all{rowlock_program};
      all.insert(all.end(), command.begin(), command.end());
      auto const done = run(all, {{"ROWLOCK_DB", url}});
      CAPTURE(url);
      CAPTURE(command[0]);
      CHECK(done.status != 0);
      CHECK(is_plain(done.out + done.err));
      CHECK((done.out + done.err).find("\xc2\x9b") == std::string::npos);
      CHECK((done.out + done.err).find('\xff') == std::string::npos);
    }
}

TEST_CASE(
    "C13: postgresql: a server that has not proved its name gets no password by asking, with libpq 16") {
  struct request {
    char const* name;
    std::string words;
  };
  std::string const scram("SCRAM-SHA-256\0\0", 15);
  std::vector<request> requests{{"scram", postgresql_says::log_in_by(10, scram)}};
  if (libpq_can_refuse) {
    requests.push_back({"clear", postgresql_says::log_in_by(3)});
    requests.push_back({"md5", postgresql_says::log_in_by(5, "salt")});
    requests.push_back({"clear behind scram", requests.front().words + postgresql_says::log_in_by(3)});
  }
  for (auto const& r : requests) {
    CAPTURE(r.name);
    fake_server* self = nullptr;
    fake_server server([&](peer& p) {
      hear_postgresql_start(p);
      p.say(r.words);
      self->note(p.hear(30));
    });
    self = &server;
    auto const done = list(postgresql_at(server));
    bool const refused = &r != &requests.front();
    CHECK(done.status == (refused ? 77 : 69));
    if (refused) CHECK(done.says("scram-sha-256"));
    // A first word of SCRAM ('p', with the client's nonce) says nothing of the password.
    auto const heard = server.noted();
    CHECK(heard.find(password) == std::string::npos);
    CHECK(heard.find("md5") == std::string::npos);
    if (heard.size() > 0) CHECK(heard.find("SCRAM-SHA-256") != std::string::npos);
  }
}

TEST_CASE("C13: postgresql: a password goes in clear only to a server that has proved its name") {
  scratch_folder const folder;
  auto const rules = folder.file("pg_hba.conf");
  std::ofstream(rules)
      << "host all rowlock 127.0.0.1/32 scram-sha-256\nhost all clear 127.0.0.1/32 password\n";
  REQUIRE(run({"sh", "-c", "chmod 711 " + folder.path().string() + "; chmod 644 " + rules}).status == 0);
  database_server const server(server_kind::postgresql,
                               {.tls = true, .settings = {"hba_file = '" + rules + "'"}});
  auto const deadline = boot_clock::now() + 60s;
  auto const admin = rowlock::source_from_url(server.address()).implementation()->connect(deadline);
  admin->script("CREATE ROLE clear LOGIN SUPERUSER PASSWORD 'a-password-to-steal'", deadline);
  auto const certificate =
      rowlock::backend::as_text(admin->execute({"", "SHOW ssl_cert_file"}, {}, deadline).rows[0][0]);
  auto const clear =
      server.address().substr(0, server.address().find(" user=")) + " user=clear password=" + password;

  auto const proved = list(clear + " sslmode=verify-full sslrootcert=" + certificate);
  CHECK(proved.says("migrate up"));
  if (!libpq_can_refuse) return;
  for (auto const& mode : {std::string("disable"), std::string("prefer"), std::string("require"),
                           "verify-ca sslrootcert=" + certificate}) {
    CAPTURE(mode);
    auto const refused = list(clear + " sslmode=" + mode);
    CHECK(refused.status == 77);
    CHECK(refused.says("cleartext"));
    auto const scram = list(server.address() + " sslmode=" + mode);
    CHECK(scram.says("migrate up"));
  }
}
