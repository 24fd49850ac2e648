// Whoever sits at the other end of the wire: it costs a call its time and a little memory, and no more.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <vector>

#include "cli/program.hpp"
#include "hostile/fake_server.hpp"

using namespace rowlock::test;

namespace {

using talk = std::function<void(peer&)>;
using talks = std::map<std::string, talk>;

struct command {
  words arguments;
  double longest;  ///< seconds: its own limit, and 5 s of reply_timeout
};

std::vector<command> const& commands() {
  static std::vector<command> const all{{{"list"}, 5.0},
                                        {{"run", "--wait", "2s", "name", "--", "true"}, 7.0},
                                        {{"doctor", "--timeout", "3s"}, 8.0}};
  return all;
}

struct outcome {
  int status;
  double seconds;
  long kilobytes;
  std::string said;
};

outcome outcome_of(words const& arguments, std::string const& url) {
  words all{rowlock_program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  auto const begin = std::chrono::steady_clock::now();
  program p(all, {{"ROWLOCK_DB", url}});
  int const status = p.wait();
  return {status, seconds_since(begin), p.peak_kilobytes(), p.err()};
}

/// Nobody listens there.
constexpr int no_port = 1;

void note_down(std::string const& line) {
  if (char const* file = std::getenv("ROWLOCK_HOSTILE_TABLE"))
    std::ofstream(file, std::ios::app) << line << '\n';
}

void try_all(std::string const& kind, std::string const& step, talks const& ways) {
  auto const url = [&](int port) { return fmt::format("{}://u:p@127.0.0.1:{}/d", kind, port); };
  std::map<std::string, outcome> plain;
  for (auto const& c : commands()) plain[c.arguments[0]] = outcome_of(c.arguments, url(no_port));
  for (auto const& one : ways) {
    auto const& way = one.first;  // not a structured binding: clang++ 14 has them in no lambda, nor in INFO()
    fake_server server(one.second);
    std::vector<std::future<outcome>> running;
    for (auto const& c : commands())
      running.push_back(std::async(std::launch::async, outcome_of, c.arguments, url(server.port())));
    for (std::size_t i = 0; i < running.size(); ++i) {
      auto const& c = commands()[i];
      auto const got = running[i].get();
      auto const more = got.kilobytes - plain[c.arguments[0]].kilobytes;
      INFO(kind, ", ", step, ", ", way, ", ", c.arguments[0], ": ", got.seconds, " s, ", more,
           " KiB: ", got.said);
      note_down(fmt::format("| {} | {} | {} | {} | {:.1f} s | {:.1f} MiB | {} |", kind, step, way,
                            c.arguments[0], got.seconds, static_cast<double>(more) / 1024, got.status));
      CHECK(got.status > 0);
      CHECK(got.status < 128);
      CHECK(got.seconds < c.longest + 40);  // the machine is busy
      CHECK(more < 128 * 1024);  // mostly a tenth of it; who counts may get no processor for a while
    }
  }
}

void be_silent(peer& p) { p.hear_all(); }

talk after(std::function<void(peer&)> before, talk then) {
  return [before = std::move(before), then = std::move(then)](peer& p) {
    before(p);
    then(p);
  };
}

talks each_after(std::function<void(peer&)> const& before, talks ways) {
  ways["stall"] = be_silent;
  for (auto& [name, way] : ways) way = after(before, std::move(way));
  return ways;
}

talk drips(std::string text) {
  return [text = std::move(text)](peer& p) { p.drip(text); };
}

talk floods(std::string first, std::string text) {
  return [first = std::move(first), text = std::move(text)](peer& p) {
    if (p.say(first)) p.flood(text);
  };
}

talk lies(std::string text) {
  return [text = std::move(text)](peer& p) {
    p.say(text);
    be_silent(p);
  };
}

// The head of a long packet, and what it may be full of.
std::string const long_packet("\xff\xff\0\0", 4);
std::string const zeros(1000, '\0');

/// 256 packets with numbers that go on from `first`; the next one has that number again.
std::string in_order(int first, std::string (*make)(int)) {
  std::string out;
  for (int i = 0; i < 256; ++i) out += make((first + i) % 256);
  return out;
}

std::string long_row(int n) { return mysql_says::one_row(n, std::string(200, 'x')); }
std::string short_row(int n) { return mysql_says::one_row(n, "x"); }
// A packet that tells how far the server has come is skipped, however many there are.
std::string progress(int n) { return mysql_says::packet(n, std::string("\xff\xff\xff\1\1\1\0\0\0\1x", 11)); }
std::string column(int n) {
  auto const all = mysql_says::columns();
  return mysql_says::packet(n, all.substr(9, all.size() - 18));  // between the columns' number and their end
}

/// Rows of a megabyte each.
void flood_by_big_rows(peer& p) {
  p.say(mysql_says::columns());
  auto const row = "\xfd\x3c\x42\x0f" + std::string(999'996, 'x');
  for (int n = 4; p.say(mysql_says::packet(n, row)); n = (n + 1) % 256) {
  }
}

/// As a server that can't make up its mind how to let the client in.
void ask_again_and_again(peer& p) {
  for (int n = 2; p.say(mysql_says::log_in_otherwise(n, "mysql_native_password")); n = (n + 2) % 256)
    if (hear_mysql_packet(p).empty()) return;
}

void mysql_log_in(peer& p) {
  p.say(mysql_says::greeting());
  hear_mysql_packet(p);
  p.say(mysql_says::ok(2));
  hear_mysql_packet(p);
}

void postgresql_log_in(peer& p) {
  hear_postgresql_start(p);
  p.say(postgresql_says::logged_in());
  p.hear(5);
}

std::string endless_message(char type) { return type + postgresql_says::number(0x3fffffff); }

}  // namespace

TEST_CASE("C14: mysql: who answers wrongly before the greeting holds nobody up") {
  try_all("mysql", "greeting",
          each_after([](peer&) {}, {{"drip", drips(long_packet + std::string(70'000, '\0'))},
                                    {"flood", floods(long_packet, zeros)},
                                    {"lie: garbage", lies("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")},
                                    {"lie: cut", lies(mysql_says::greeting().substr(0, 30))}}));
}

TEST_CASE("C14: mysql: who answers wrongly at the log-in holds nobody up") {
  try_all("mysql", "log-in",
          each_after(
              [](peer& p) {
                p.say(mysql_says::greeting());
                hear_mysql_packet(p);
              },
              {{"drip", drips(long_packet + std::string(70'000, '\0'))},
               {"drip: progress", drips(in_order(2, progress))},
               {"flood", floods(std::string("\xff\xff\0\2", 4), zeros)},
               {"flood: progress", floods("", in_order(2, progress))},
               {"flood: other methods", ask_again_and_again},
               {"lie: a reply without end", lies(mysql_says::packet(2, "\xfe"))}}));
}

TEST_CASE("C14: mysql: who answers a command wrongly holds nobody up") {
  try_all("mysql", "command",
          each_after(mysql_log_in,
                     {{"drip", drips(mysql_says::columns() + mysql_says::one_row(4, "x"))},
                      {"flood: rows", floods(mysql_says::columns(), in_order(4, long_row))},
                      {"flood: small rows", floods(mysql_says::columns(), in_order(4, short_row))},
                      {"flood: big rows", flood_by_big_rows},
                      {"flood: columns", floods(mysql_says::packet(1, "\xfc\xff\xff"), in_order(2, column))},
                      {"lie: columns", lies(mysql_says::packet(1, std::string("\xfe\0\0\0\0\0\0\0\x7f", 9)))},
                      {"lie: ok for all", [](peer& p) {
                         while (p.say(mysql_says::ok(1)) && !hear_mysql_packet(p).empty()) {
                         }
                       }}}));
}

TEST_CASE("C14: postgresql: who answers a request for encryption wrongly holds nobody up") {
  try_all("postgresql", "encryption",
          each_after(
              [](peer& p) { p.hear(8); },
              {{"drip", drips("N")}, {"flood", floods("N", zeros)}, {"lie: garbage", lies("HTTP/1.1 400")}}));
}

TEST_CASE("C14: postgresql: who answers wrongly at the log-in holds nobody up") {
  try_all("postgresql", "log-in",
          each_after(hear_postgresql_start,
                     {{"drip", drips(endless_message('R') + zeros)},
                      {"drip: settings", drips(postgresql_says::log_in_by(0) +
                                               postgresql_says::message('S', std::string("a\0b\0", 4)))},
                      {"flood", floods(endless_message('R'), zeros)},
                      {"flood: error", floods(endless_message('E'), zeros)},
                      {"flood: methods",
                       floods("", postgresql_says::log_in_by(10, std::string("SCRAM-SHA-256\0\0", 15)))},
                      {"flood: settings", floods(postgresql_says::log_in_by(0),
                                                 postgresql_says::message('S', "a" + std::string("\0", 1) +
                                                                                   std::string(200, 'b') +
                                                                                   std::string("\0", 1)))},
                      {"flood: notice", floods(postgresql_says::log_in_by(0) + endless_message('N'), zeros)},
                      {"lie: garbage", lies("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")}}));
}

TEST_CASE("C14: postgresql: who answers a command wrongly holds nobody up") {
  try_all(
      "postgresql", "command",
      each_after(postgresql_log_in,
                 {{"drip", drips(postgresql_says::columns() + postgresql_says::one_row("x"))},
                  {"flood: rows",
                   floods(postgresql_says::columns(), postgresql_says::one_row(std::string(200, 'x')))},
                  {"flood: small rows", floods(postgresql_says::columns(), postgresql_says::one_row("x"))},
                  {"flood: a row", floods(postgresql_says::columns() + endless_message('D'), zeros)},
                  {"flood: notice", floods(endless_message('N'), zeros)},
                  {"lie: garbage", lies(zeros)}}));
}

TEST_CASE(
    "C98: postgresql: a server that is older than the documentation says is refused, with the oldest that is "
    "not") {
  fake_server const old([](peer& p) {
    hear_postgresql_start(p);
    p.say(postgresql_says::logged_in("12.20"));
    p.hear_all();
  });
  auto const o = outcome_of({"list"}, fmt::format("postgresql://u@127.0.0.1:{}/d", old.port()));
  CHECK(o.status == 78);
  CHECK_MESSAGE(o.said.find("PostgreSQL 12 is too old: 13 is the oldest") != o.said.npos, o.said);
}
