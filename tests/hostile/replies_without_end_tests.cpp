// Replies that go on for ever by their number, not by their bytes; and greetings that no client library
// survives.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>
#include <rowlock/rowlock.hpp>

#include "backend/backend.hpp"
#include "cli/program.hpp"
#include "hostile/fake_server.hpp"
#include "hostile/fake_session.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

boot_time_point in_good_time() { return boot_clock::now() + 60s; }

/// What is said of `call`, on a session of a server that answers each statement by `talk`.
template <class Call>
std::string error_on(std::string const& kind, std::function<void(peer&)> const& talk, Call const& call) {
  fake_server const server(talk);
  auto const url = fmt::format("{}://u:p@127.0.0.1:{}/d", kind, server.port());
  auto const c = source_from_url(url).implementation()->connect(in_good_time());
  try {
    call(*c);
    return {};
  } catch (error const& e) {
    return e.what();
  }
}

/// With bounds of its own: what goes wrong here would take all memory.
finished bounded_list(int port) {
  return run({"sh", "-c", R"(ulimit -v 4000000; exec timeout 100 "$0" list)", rowlock_program},
             {{"ROWLOCK_DB", fmt::format("mysql://u:p@127.0.0.1:{}/d", port)}});
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

backend::statement const reads{"any", "SELECT 1"};

std::string repeated(std::string const& one, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += one;
  return out;
}

std::string setting(int number) {
  return postgresql_says::message('S', fmt::format("a{}", number) + std::string("\0b\0", 3));
}

long kilobytes_now() {
  std::ifstream file("/proc/self/statm");
  long pages = 0;
  file >> pages >> pages;
  return pages * 4;
}

/// Of PostgreSQL: a wait for a row, several statements at once, a wait queue, and one statement.
std::vector<std::string> errors_of_each_wait(std::function<void(peer&)> const& talk) {
  auto const wait = [](backend::connection& c) { c.wait_for_row(reads, {}, in_good_time(), 30s, {}); };
  auto const all = [](backend::connection& c) {
    backend::step const one{reads, {}};
    (void)c.execute_at_once({&one, 1}, in_good_time());
  };
  auto const stand = [](backend::connection& c) { c.enter_queue({}, "n", "who", in_good_time(), 30s, {}); };
  auto const run = [](backend::connection& c) { c.execute(reads, {}, in_good_time()); };
  return {error_on("postgresql", talk, wait), error_on("postgresql", talk, all),
          error_on("postgresql", talk, stand), error_on("postgresql", talk, run)};
}

std::string with_number(std::string packet, char number) {
  packet[3] = number;
  return packet;
}

}  // namespace

TEST_CASE("C65: mysql: a server that answers several statements with one OK packet is left at once") {
  fake_server const server([](peer& p) {
    fake_mysql_session session(p);
    while (session.hear())
      if (!p.say(session.several() ? mysql_says::ok(1) : session.reply())) return;
  });
  auto const done = bounded_list(server.port());
  CHECK_MESSAGE(done.status == 69, done.status, done.err);
  CHECK_MESSAGE(done.says("did not answer each of several statements"), done.err);
}

TEST_CASE("C65: mysql: results without an end, and rows of many cells in few bytes, end a call") {
  auto const answered_by = [](std::string text) {
    return [text = std::move(text)](peer& p) {
      fake_mysql_session session(p);
      while (session.hear())
        if (!p.say(contains(session.text(), "EXPLAIN ours") ? text : session.reply())) return;
    };
  };
  std::string oks;
  for (int i = 0; i < 20'000; ++i) oks += mysql_says::ok(1 + i, true);
  CHECK(contains(error_on("mysql", answered_by(oks + mysql_says::ok(1)),
                          [](backend::connection& c) { c.script("EXPLAIN ours;DO 1", in_good_time()); }),
                 "did not answer each of several statements"));

  constexpr int columns = 200;
  std::string wide = mysql_says::columns(columns);
  int number = columns + 3;
  for (int i = 0; i < 8'000; ++i) wide += mysql_says::packet(number++, std::string(columns, '\xfb'));
  CHECK(contains(
      error_on("mysql", answered_by(wide + mysql_says::packet(number, std::string("\xfe\0\0\2\0", 5))),
               [](backend::connection& c) {
                 c.execute({"any", "EXPLAIN ours"}, {}, in_good_time());
               }),
      "longer than any that is expected"));
}

TEST_CASE("C65: postgresql: a server that begins COPY instead of answering is left at once") {
  for (char const copy : {'G', 'H', 'W'}) {
    CAPTURE(copy);
    auto const talk = [copy](peer& p) {
      fake_postgresql_session session(p);
      while (session.hear())
        if (!p.say(session.type() == 'E' ? postgresql_says::message(copy, std::string(3, '\0'))
                                         : session.reply()))
          return;
    };
    for (auto const& said : errors_of_each_wait(talk)) CHECK_MESSAGE(contains(said, "COPY"), said);
  }
}

TEST_CASE("C65: postgresql: a server that says what is no message is left at once, not at a deadline") {
  auto const talk = [](peer& p) {
    fake_postgresql_session session(p);
    while (session.hear())
      if (!p.say(session.type() == 'E' ? std::string("\0\x20\0\0\0", 5) : session.reply())) return;
  };
  for (auto const& said : errors_of_each_wait(talk)) CHECK_MESSAGE(contains(said, "synchronization"), said);
}

TEST_CASE("C65: postgresql: results without an end, of some bytes each, end a call") {
  for (auto const& one :
       {postgresql_says::message('I', ""), postgresql_says::message('C', std::string(1, '\0')),
        postgresql_says::message('E', std::string(1, '\0'))}) {
    CAPTURE(one[0]);
    auto const talk = [all = repeated(one, 20'000)](peer& p) {
      fake_postgresql_session session(p);
      while (session.hear())
        if (!p.say(session.type() == 'Q' && contains(session.text(), "ours")
                       ? all + postgresql_says::message('Z', "I")
                       : session.reply()))
          return;
    };
    auto const said =
        error_on("postgresql", talk, [](backend::connection& c) { c.script("SELECT ours", in_good_time()); });
    CHECK_MESSAGE(contains(said, "longer than any that is expected"), said);
  }
}

TEST_CASE("C65: postgresql: settings without an end are refused at the log-in") {
  fake_server const server([](peer& p) {
    hear_postgresql_start(p);
    p.say(postgresql_says::log_in_by(0));
    for (int i = 0; p.say(setting(i)); ++i) {
    }
  });
  auto const url = fmt::format("postgresql://u:p@127.0.0.1:{}/d", server.port());
  CHECK_THROWS_WITH_AS(source_from_url(url).implementation()->connect(in_good_time()),
                       doctest::Contains("more and more"), error);
}

TEST_CASE("C65: postgresql: what a server notifies unasked is not kept") {
  auto const told =
      repeated(postgresql_says::message('A', postgresql_says::number(1) + std::string("a\0b\0", 4)), 100'000);
  fake_server const server([&](peer& p) {
    fake_postgresql_session session(p);
    while (session.hear())
      if (!p.say((session.type() == 'Q' && contains(session.text(), "ours") ? told : "") + session.reply()))
        return;
  });
  auto const url = fmt::format("postgresql://u:p@127.0.0.1:{}/d", server.port());
  auto const c = source_from_url(url).implementation()->connect(in_good_time());
  c->script("SELECT ours", in_good_time());
  auto const before = kilobytes_now();
  for (int i = 0; i < 15; ++i) c->script("SELECT ours", in_good_time());
  CHECK(kilobytes_now() - before < 40'000);
}

TEST_CASE("C66: mysql: a greeting that the client library can't read is refused before it does") {
  auto const sound = mysql_says::greeting();
  auto const body = sound.substr(4);
  auto const version = body.find('\0');
  auto without_41 = body;
  without_41[version + 15] = '\0';
  auto long_scramble = body;
  long_scramble[version + 21] = '\xff';
  auto const says = [](std::string const& text) { return mysql_says::packet(0, text); };
  std::map<std::string, std::string> const greetings{
      {"an error that is a report of progress", says(std::string("\xff\xff\xff\0\1\2\3\4\5", 9))},
      {"an error without a number", says("\xff")},
      {"nothing", std::string(4, '\0')},
      {"another number", with_number(sound, 1)},
      {"another version", says('\x0b' + body.substr(1))},
      {"a version without an end", says("\x0a" + std::string(600, '5'))},
      {"half of it", says(body.substr(0, version + 20))},
      {"an old protocol", says(without_41)},
      {"a scramble beyond its end", says(long_scramble)},
      {"a long one", says(body + std::string(2'000, 'x'))},
      {"another protocol's", "SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"},
  };
  for (auto const& one : greetings) {
    CAPTURE(one.first);
    for (bool const slowly : {false, true}) {
      fake_server* self = nullptr;
      fake_server server([&, text = one.second](peer& p) {
        auto const first = slowly ? std::size_t{3} : text.size();
        p.say(text.substr(0, first));
        if (slowly) std::this_thread::sleep_for(20ms);  // in a packet of its own
        p.say(text.substr(first));
        self->note(p.hear_all());
      });
      self = &server;
      auto const done = bounded_list(server.port());
      CHECK(done.status == 69);
      CHECK_MESSAGE(done.says("does not greet as MySQL and MariaDB do"), done.err);
      CHECK(server.noted().empty());
    }
  }
}

TEST_CASE("C66: mysql: a greeting that comes bit by bit, or is an error, is read as ever") {
  fake_server* self = nullptr;
  fake_server slow([&](peer& p) {
    auto const text = mysql_says::greeting();
    for (char const one : text) {
      p.say({&one, 1});
      std::this_thread::sleep_for(1ms);
    }
    self->note(p.hear(30));
  });
  self = &slow;
  (void)bounded_list(slow.port());
  CHECK(slow.noted().size() == 30);

  fake_server const full([](peer& p) { p.say(mysql_says::refused(0, "go away")); });
  CHECK(bounded_list(full.port()).says("go away"));
}

TEST_CASE(
    "C67: mysql: with ssl-mode=verify the client library reads nothing of a stranger's after the greeting") {
  auto greeting = mysql_says::greeting();
  greeting[greeting.find('\0', 5) + 15] |= 8;  // it could encrypt
  fake_server* self = nullptr;
  fake_server server([&](peer& p) {
    p.say(greeting);
    auto const asks = hear_mysql_packet(p);  // for encryption: what the client can do, and no name
    p.say(mysql_says::ok(2) + mysql_says::columns());
    p.hear_all();
    self->note(std::to_string(asks.size()));
  });
  self = &server;
  scratch_folder const folder;
  auto const ca = folder.file("ca.pem");
  REQUIRE(
      run({"sh", "-c", "openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=x -out " + ca})
          .status == 0);
  auto const url = fmt::format("mysql://u:p@127.0.0.1:{}/d?ssl-mode=verify&ssl-ca={}", server.port(), ca);
  auto const done = run({rowlock_program, "list"}, {{"ROWLOCK_DB", url}});
  CHECK_MESSAGE(done.status == 69, done.err);
  CHECK(within(60s, [&] { return !server.noted().empty(); }));
  CHECK(server.noted() == "32");
}
