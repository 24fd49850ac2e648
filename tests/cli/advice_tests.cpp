// What a message tells to do about it: once, with the options that it takes, and so that it helps.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cli/help.hpp"
#include "cli/place.hpp"
#include "support/database_server.hpp"

using namespace rowlock::test;

namespace {

int times(std::string const& text, std::string const& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

/// A port of 127.0.0.1 that takes connections and says nothing, as of a server that is stopped.
class silent_server {
 public:
  silent_server() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(fd_, 8) == 0);
    REQUIRE(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
  }
  ~silent_server() { ::close(fd_); }
  silent_server(silent_server const&) = delete;
  silent_server& operator=(silent_server const&) = delete;
  int port() const noexcept { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

/// With one that has signed nothing of the server's.
void check_certificate(server_kind kind, std::string const& trust) {
  database_server const server(kind, {.tls = true});
  scratch_folder const folder;
  auto const other = folder.file("other.pem");
  REQUIRE(run({"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "/dev/null", "-subj",
               "/CN=x", "-out", other})
              .status == 0);
  environment const at{{"ROWLOCK_DB", server.address() + trust + other}};
  auto const r = run({rowlock_program, "list"}, at);
  CAPTURE(r.err);
  CHECK(r.status == 69);
  CHECK(r.says("its certificate is not accepted: see that it has not expired"));
  CHECK_FALSE(r.says("Is the server running"));
  auto const examined = run({rowlock_program, "doctor"}, at);
  CHECK(examined.out.find("its certificate is not accepted") != std::string::npos);
  CHECK(examined.out.find("Is the server running") == std::string::npos);
}

}  // namespace

CLI_CASE("advice: one table that is missing: no command sends to one that sends back") {
  for (std::string const table : {"rowlock_locks", "rowlock_tokens", "rowlock_reaper"}) {
    CAPTURE(table);
    Place const p;
    p.sql("DROP TABLE " + table);
    auto const used = p.rowlock(table == "rowlock_reaper" ? words{"reap"} : words{"run", "n", "--", "true"});
    CAPTURE(used.err);
    CHECK(used.status == 78);
    CHECK(used.says("`rowlock migrate validate"));
    CHECK_FALSE(used.says("migrate up"));
    auto const validated = p.rowlock({"migrate", "validate"});
    CHECK(validated.status == 78);
    CHECK(validated.out.find(table + " is missing") != std::string::npos);
    CHECK(validated.says("Correct it by hand: rowlock migrate sql"));
    CHECK_FALSE(validated.says("migrate up"));
    for (auto const* what : {"up", "repair"}) {
      auto const refused = p.rowlock({"migrate", what});
      CHECK(refused.status == 78);
      CHECK(refused.says(table + " is missing; correct them by hand (`rowlock migrate sql"));
      CHECK_FALSE(refused.says("orrect it"));
      CHECK_FALSE(refused.says("migrate up"));
    }
    auto const examined = p.rowlock({"doctor"});
    CHECK(examined.status == 1);
    CHECK(examined.out.find("these tables are missing: " + table) != std::string::npos);
  }
}

CLI_CASE("advice: without tables it says once what makes them, with the options that name them") {
  Place const p(false);
  auto const words_of = [&](words const& what) {
    words all{"--table-prefix", "w_"};
    all.insert(all.end(), what.begin(), what.end());
    return all;
  };
  for (words const& what : {words{"list"}, {"run", "n", "--", "true"}, {"migrate", "validate"}}) {
    auto const r = p.rowlock(words_of(what));
    CAPTURE(r.err);
    CHECK(r.status == 78);
    CHECK(times(r.err, "migrate up") == 1);
    CHECK(r.says("`rowlock migrate up --table-prefix w_"));
  }
  REQUIRE(p.rowlock(words_of({"migrate", "up"})).status == 0);
  p.sql("UPDATE w_meta SET schema_version = 0");
  auto const old = p.rowlock(words_of({"list"}));
  CHECK(old.status == 78);
  CHECK(times(old.err, "migrate up") == 1);
  CHECK(old.says("`rowlock migrate up --table-prefix w_"));
}

TEST_CASE("advice: a file that is missing is named once") {
  on_sqlite const p(false);
  auto const r = run({rowlock_program, "--db", p.url(), "list", "--table-prefix", "w_"});
  CHECK(r.status == 78);
  CHECK(r.says("`rowlock migrate up --db " + p.url() + " --table-prefix w_` makes it"));
  CHECK(times(r.err, "migrate up") == 1);
}

CLI_CASE("advice: against tables of a newer program only a newer program helps") {
  Place const p;
  for (auto const* reader : {"5", "99"}) {
    p.sql(fmt::format("UPDATE rowlock_meta SET schema_version = 99, oldest_reader = {}", reader));
    auto const r = p.rowlock({"migrate", "validate"});
    CHECK(r.status == 78);
    CHECK(r.says("newer rowlock"));
    CHECK_FALSE(r.says("migrate up"));
    CHECK_FALSE(r.says("repair"));
  }
}

SERVER_CASE("advice: doctor says of tables that are missing that they are missing") {
  Place const p(false);
  auto const r = p.rowlock({"doctor"});
  CHECK(r.status == 1);
  CHECK(r.out.find("needs a right on the table") == std::string::npos);
  CHECK(r.out.find("needs the table rowlock_locks") != std::string::npos);
}

TEST_CASE("advice: migrate waits no minute for a server that says nothing") {
  silent_server const server;
  auto const at = fmt::format("127.0.0.1:{}/d", server.port());
  auto const began = std::chrono::steady_clock::now();
  program status({rowlock_program, "--db", "postgresql://u@" + at, "migrate", "status"});
  program up({rowlock_program, "--db", "mysql://u@" + at, "migrate", "up"});
  CHECK(status.wait() == 69);
  CHECK(up.wait() == 69);
  CHECK(seconds_since(began) < 55);
}

TEST_CASE("advice: migrate down while a lock is held speaks of no transaction") {
  on_sqlite const p;
  holder const h(p, {"n"});
  auto const r = p.rowlock({"migrate", "down", "--to", "0"});
  CHECK(r.status == 75);
  CHECK(r.says("locks are held: 'n'"));
  CHECK_FALSE(r.says("transaction"));
}

TEST_CASE("advice: what is no regular file is refused before anything waits for it") {
  scratch_folder const folder;
  auto const pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (auto const& path : {pipe, std::string("/dev/null")})
    for (words const& what : {words{"list"}, {"migrate", "up"}, {"run", "n", "--", "true"}}) {
      CAPTURE(path);
      words all{rowlock_program, "--db", "sqlite:" + path};
      all.insert(all.end(), what.begin(), what.end());
      auto const r = run(all);
      CHECK(r.status == 64);
      CHECK(r.says("'" + path + "' is a device, pipe or socket, not an SQLite file"));
    }
}

TEST_CASE("advice: a file that is no SQLite database is 78, and doctor says what to do") {
  scratch_folder const folder;
  std::ofstream(folder.file("x")) << std::string(4096, 'x');
  auto const url = "sqlite:" + folder.file("x");
  auto const r = run({rowlock_program, "--db", url, "list"});
  CHECK(r.status == 78);
  CHECK(r.says("is not an SQLite database"));
  auto const examined = run({rowlock_program, "--db", url, "doctor"});
  CHECK(examined.status == 1);
  CHECK(examined.out.find("is not an SQLite database: name another file") != std::string::npos);
}

TEST_CASE("advice: take that can't say what it took says why, and gives it back") {
  on_sqlite const p;
  auto all = p.command({"take", "n", "--ttl", "1h"});
  all.insert(all.begin(), {"sh", "-c", "exec \"$@\" >/dev/full", "sh"});
  auto const r = run(all, p.variables());
  CHECK(r.status == 74);
  CHECK(r.says("the output could not be written: No space left on device; 'n' was given back"));
  CHECK(times(r.err, "written") == 1);
  CHECK(p.rowlock({"take", "n", "--ttl", "1s", "--no-wait"}).status == 0);
}

TEST_CASE("advice: --help of each command says that 71 and 74 can come") {
  for (auto const* command :
       {"run", "once", "take", "list", "renew", "release", "reap", "doctor", "migrate"}) {
    CAPTURE(command);
    auto const help = help_of({command});
    auto const statuses = help.find("Exit status:");
    REQUIRE(statuses != std::string::npos);
    CHECK(help.find("71", statuses) != std::string::npos);
    CHECK(help.find("74", statuses) != std::string::npos);
  }
}

TEST_CASE(
    "C91: a certificate that is not accepted: nobody is asked whether the server is running <postgresql>") {
  check_certificate(server_kind::postgresql, " sslmode=verify-full sslrootcert=");
}

TEST_CASE(
    "C91: a certificate that is not accepted: nobody is asked whether the server is running <mariadb>") {
  check_certificate(server_kind::mariadb, "?ssl-mode=verify&ssl-ca=");
}

TEST_CASE("C91: a password file that others can read is named, with what to do") {
  scratch_folder const folder;
  auto const file = folder.file("password");
  std::ofstream(file) << "secret\n";
  for (auto const mode : {0644U, 0640U, 0600U}) {
    CAPTURE(mode);
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    auto const r = run({rowlock_program, "--db", "mysql://u@127.0.0.1:1/d", "--password-file", file, "list"});
    CHECK(r.status == 69);
    CHECK(r.says("password file " + file + " (mode 644)") == (mode == 0644));
    CHECK(r.says("chmod o= " + file) == (mode == 0644));
  }
}

TEST_CASE("names that begin with -: behind --") {
  on_sqlite const p;
  auto const taken = p.rowlock({"take", "--ttl", "1h", "--", "-n"});
  CHECK(taken.status == 0);
  CHECK(taken.out.find("ROWLOCK_NAME=-n\n") == 0);
  auto const at = taken.out.find("ROWLOCK_TERM=") + 13;
  auto const term = taken.out.substr(at, taken.out.find('\n', at) - at);
  CHECK(p.rowlock({"list", "--", "-n"}).out.find("\n-n ") != std::string::npos);
  CHECK(p.rowlock({"renew", "--term", term, "--", "-n"}).status == 0);
  CHECK(p.rowlock({"run", "--no-wait", "--", "-n", "--", "true"}).status == 75);
  CHECK(p.rowlock({"release", "--term", term, "--", "-n"}).status == 0);
  auto const run_it = p.rowlock(
      {"run", "--no-wait", "--", "--db", "--", "sh", "-c", "echo \"<$ROWLOCK_NAME> $*\"", "x", "--", "-n"});
  CHECK(run_it.status == 0);
  CHECK(run_it.out == "<--db> -- -n\n");
  // A name that was forgotten is not taken from the command, and only run has one.
  CHECK(p.rowlock({"run", "--no-wait", "--", "sh", "-c", "true"}).status == 64);
  CHECK(p.rowlock({"take", "n", "--ttl", "1h", "--", "true"}).says("only `rowlock run`"));
}
