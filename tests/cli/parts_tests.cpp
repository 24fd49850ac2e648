// Parts of the program on their own: no process, no database.

#include <doctest/doctest.h>

#include "commands/run_options.hpp"
#include "database.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "text.hpp"

using namespace rowlock;
using namespace rowlock::tool;
using namespace std::chrono_literals;

TEST_CASE("durations: what is understood and what is not") {
  CHECK(parse_duration("250ms") == 250ms);
  CHECK(parse_duration("30s") == 30s);
  CHECK(parse_duration("10m") == 10min);
  CHECK(parse_duration("2h") == 2h);
  CHECK(parse_duration("1d") == 24h);
  CHECK(parse_duration("0") == 0ms);
  CHECK(parse_duration("0s") == 0ms);
  for (auto const* bad : {"", "5", "s", "-1s", "+1s", " 1s", "1s ", "1 s", "1.5s", "1S", "1sec", "1m30s",
                          "0x1s", "99999999999999999999s", "9223372036854775807h"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_duration(bad));
  }
}

TEST_CASE("durations: as they are printed") {
  CHECK(exact_duration(14'500ms) == "14500ms");
  CHECK(exact_duration(90s) == "90s");
  CHECK(format_duration(0ms) == "0ms");
  CHECK(format_duration(999ms) == "999ms");
  CHECK(format_duration(1s) == "1s");
  CHECK(format_duration(29'540ms) == "29.5s");
  CHECK(format_duration(200s) == "3m 20s");
  CHECK(format_duration(2h) == "2h");
  CHECK(format_duration(50h) == "2d 2h");
  CHECK(format_duration(-5s) == "-5s");
  CHECK(format_duration(std::chrono::milliseconds::min()) ==
        format_duration(-std::chrono::milliseconds::max()));
}

TEST_CASE("a password in a URL or keyword string is found") {
  for (auto const* with :
       {"postgresql://u:pw@h/d", "postgres://u:pw@h", "postgresql://h/d?password=pw",
        "postgresql://h/d?a=b&password=pw", "host=h password=pw", "password = pw", "user='a b' password='x'",
        "host=h sslpassword=x", "user=a\\ password=x password=y", "postgresql:///d?sslpassword=x",
        "postgresql://u:p?w@h/d", "postgresql://u:p?w@h", "postgresql://h/d?pass%77ord=pw",
        "mysql://u:pw@h/d", "mariadb://u:pw@h,i:3307/d?ssl-mode=require"}) {
    CAPTURE(with);
    CHECK(has_password(with));
  }
  for (auto const* without :
       {"postgresql://u@h/d", "postgresql://h:5432/d", "postgresql://u:@h/d", "postgresql://[::1]:5432/d",
        "host=h user=u", "application_name='my password=x'", "user=a\\ password=x", "sqlite:u:p@h",
        "passfile=/x", "postgresql://h/d?passfile=/x", "postgresql:///d?host=/a:b@c", "postgresql://h/d?%=%7",
        "postgresql://h/d?%2bassword=x", "host=", "", "mysql://u@h,i:3307/d",
        "mysql://u@h/d?password-file=/x"}) {
    CAPTURE(without);
    CHECK_FALSE(has_password(without));
  }
}

TEST_CASE("C13: what the server could not do, or others have set up, is not called a bug of rowlock's") {
  auto const refused = [](char const* state) { return error(errc::failed, "m", "s", state, 0); };
  for (auto const* state : {"53200", "53400", "54000", "58030", "XX001"}) {
    CAPTURE(state);
    CHECK(status_of(refused(state)) == exit_unreachable);
    CHECK(advice_for_refused(refused(state)).find("server's own trouble") != std::string::npos);
  }
  for (auto const* state : {"P0001", "45000", "23514", "42723", "42P05"}) {
    CAPTURE(state);
    CHECK(status_of(refused(state)) == exit_setup);
    CHECK(advice_for_refused(refused(state)).find("may be a bug") == std::string::npos);
  }
  // SQLite has numbers instead: a trigger, a CHECK, a file that is damaged in one way or another; and a
  // syntax error.
  auto const in_file = [](int code) { return error(errc::failed, "m", "s", "", code); };
  for (int const code : {1811, 275, 11, 779}) {
    CAPTURE(code);
    CHECK(status_of(in_file(code)) == exit_setup);
    CHECK(advice_for_refused(in_file(code)).find("may be a bug") == std::string::npos);
  }
  CHECK(status_of(in_file(1)) == exit_bug);
  for (auto const* state : {"", "42601", "22P02"}) {
    CHECK(status_of(refused(state)) == exit_bug);
    CHECK(advice_for_refused(refused(state)).find("may be a bug") != std::string::npos);
  }
  CHECK(status_of(error(errc::access_denied, "m", "s", "P0001", 0)) == exit_refused);
}

TEST_CASE("C91: advice: where a reply was too long, nothing became of it that a list would show") {
  error const e(errc::in_doubt, "x: lock_list: the server's reply was longer than any that is expected");
  CHECK(advice_for(e, "").find("rowlock list") == std::string::npos);
  CHECK(advice_for(e, "").find("long texts") != std::string::npos);
  CHECK(advice_for(error(errc::in_doubt, "x: no reply in time"), "").find("rowlock list") !=
        std::string::npos);
}

TEST_CASE("names are harmless on a terminal") {
  CHECK(printable("job-1 \xc3\xa4 \xf0\x9f\x94\x92") == "job-1 \xc3\xa4 \xf0\x9f\x94\x92");
  CHECK(printable("a\nb\x1b[31m\x7f") == "a\\x0ab\\x1b[31m\\x7f");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");                   // a control character in UTF-8
  CHECK(printable("a\xe2\x80\xaetxt") == "a\\xe2\\x80\\xaetxt");  // right-to-left override
  CHECK(printable("a\xd8\x9ctxt") == "a\\xd8\\x9ctxt");           // U+061C, Arabic letter mark
  CHECK(printable("\xd8\x9b") == "\xd8\x9b");                     // its neighbour, which people read
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");
  CHECK(printable("\xe0\x80\xaf") == "\\xe0\\x80\\xaf");           // overlong
  CHECK(printable("\xf0\x80\x80\xaf") == "\\xf0\\x80\\x80\\xaf");  // overlong, too
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // a surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(printable("\xed\x9f\xbf\xf4\x8f\xbf\xbf") == "\xed\x9f\xbf\xf4\x8f\xbf\xbf");
  CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("words for a shell") {
  CHECK(shell_word("sqlite:/a/b.db") == "sqlite:/a/b.db");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("host=h dbname=d") == "'host=h dbname=d'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("=ls") == "'=ls'");
  CHECK(shell_word("a=ls") == "a=ls");
}

TEST_CASE("every error of the library has an exit status of the documented ones") {
  for (int code = 1; code <= static_cast<int>(errc::failed); ++code) {
    CAPTURE(code);
    auto const status = status_of(static_cast<errc>(code));
    CHECK((status == 64 || status == 69 || status == 70 || status == 75 || status == 76 || status == 77 ||
           status == 78));
  }
}

TEST_CASE("grace: without one it always fits; one that leaves renewal no room is refused with the numbers") {
  run_options o;
  for (auto const ttl : {100ms, 300ms, 1000ms, 30'000ms, 3'600'000ms}) {
    CAPTURE(ttl.count());
    o.ttl = ttl;
    o.grace.reset();
    auto const plan = o.for_guard({"true"});
    CHECK(plan.grace > 0ms);
    CHECK(plan.slack >= 20ms);
    CHECK(plan.grace + plan.slack <= ttl / 2);
    o.grace = ttl / 2;
    CHECK_THROWS_AS(o.for_guard({"true"}), failure);
  }
  o.ttl = 30s;
  o.grace = 14500ms;
  CHECK(o.for_guard({"true"}).grace == 14500ms);
  o.grace = 20s;
  std::string said;
  try {
    o.for_guard({"true"});
  } catch (failure const& e) {
    said = e.what();
  }
  CHECK(said ==
        "--grace 20s does not fit into --ttl 30s: the lock is renewed every 10s and trusted for 27s, so "
        "at most "
        "14.5s are left to end the command in time. Give --grace 14500ms or less, or --ttl 41s or more");
  o.ttl = 41s;
  CHECK_NOTHROW(o.for_guard({"true"}));
}
