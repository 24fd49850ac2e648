// rowlock top: its table alone, what it prints, and its screen under tmux.

#include <fmt/format.h>
#include <libpq-fe.h>

#include <clocale>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/place.hpp"
#include "text.hpp"
#include "top/cells.hpp"
#include "top/table.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace rowlock::tool;
using nlohmann::json;

namespace {

lock_info held(std::string name, std::int64_t token = 1) {
  lock_info lock;
  lock.name = std::move(name);
  lock.held = true;
  lock.holder.owner = {"web1", 7, "p", 1};
  lock.holder.token = {token};
  lock.holder.acquired_at = std::chrono::system_clock::time_point(std::chrono::hours(490'000));
  lock.holder.expires_in = 20s;
  lock.waiting = 0;
  return lock;
}

reading of(std::vector<lock_info> locks, std::chrono::seconds at = 0s) {
  reading r;
  r.locks = std::move(locks);
  r.at = std::chrono::system_clock::time_point(std::chrono::hours(490'000) + at);
  r.answered_at = std::chrono::steady_clock::time_point(std::chrono::hours(1) + at);
  return r;
}

key const enter{key::kind::enter};
key const down{key::kind::down};
key typed(char c) { return {key::kind::text, std::string(1, c)}; }

std::string text_of(std::vector<screen_line> const& lines) {
  std::string all;
  for (auto const& line : lines) all += line.text + '\n';
  return all;
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// The names in the table, as they stand there.
words names_on(top_table& table) {
  words names;
  for (auto const& line : table.screen(80, 24))
    if (!line.text.empty() && (has(line.text, " held ") || has(line.text, " revoked ")))
      names.push_back(line.text.substr(1, line.text.find(' ', 1) - 1));
  return names;
}

struct table_of : top_table {
  explicit table_of(std::vector<lock_info> locks) : top_table("rowlock top", 1s, sort_column::name) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
    take(of(std::move(locks)));
  }
};

}  // namespace

TEST_CASE("F23: cells: as wide as a terminal shows them, wide and combining characters too") {
  std::setlocale(LC_CTYPE, "C.UTF-8");
  CHECK(cells("abc") == 3);
  CHECK(cells("漢字") == 4);
  CHECK(cells("e\u0301") == 1);
  CHECK(fitted("漢字", 6) == "漢字  ");
  CHECK(fitted("漢字漢", 4) == "漢~ ");
  CHECK(fitted("漢字漢", 5) == "漢字~");
  CHECK(fitted("abc", 3) == "abc");
  CHECK(fitted("abcd", 3) == "ab~");
  CHECK(fitted("ab", 0).empty());
  CHECK(fitted("e\u0301e\u0301e\u0301", 2) == "e\u0301~");
  CHECK(wrapped("ab漢字", 3) == words{"ab", "漢", "字"});
  // Any number of marks takes one column, and is cut to what one cell of curses takes.
  std::string many = "a";
  for (int i = 0; i < 50; ++i) many += "\u0301";
  CHECK(cells(many) == 1);
  CHECK(fitted(many, 1).size() == 1 + 4 * 2);
  // A mark on nothing, and what joins or is invisible, is shown as its bytes.
  CHECK(fitted("\u0301", 8) == "\\xcc\\x81");
  CHECK(fitted("a\u200db", 14) == "a\\xe2\\x80\\x8db");
  std::setlocale(LC_CTYPE, "C");
  CHECK(fitted("a漢", 4) == "a?  ");
}

TEST_CASE("F21: top: line ends and control characters in what others wrote stay in their cell") {
  auto lock = held("a\nb\x1b[2J");
  lock.holder.note = "x\r\ty";
  lock.holder.owner.host = "h\x07";
  table_of table({lock});
  for (auto const& line : table.screen(200, 10))
    for (char const c : line.text) CHECK(static_cast<unsigned char>(c) >= 0x20);
  CHECK(has(text_of(table.screen(200, 10)), "a\\x0ab\\x1b[2J"));
  (void)table.press(enter);
  for (auto const& line : table.screen(30, 24)) {
    CHECK(cells(line.text) <= 30);
    for (char const c : line.text) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST_CASE("F22: top: at any size there are as many lines as the screen has, none wider, in every state") {
  auto wide = held("漢字漢字漢字漢字漢字漢字");
  wide.holder.note = std::string(1000, 'n');
  for (auto const* keys : {"", "h", "/a", "x"})
    for (std::size_t height = 1; height < 30; ++height)
      for (std::size_t width = 1; width < 130; ++width) {
        table_of table({wide, held("b"), held("c")});
        for (auto const* k = keys; *k != '\0'; ++k) (void)table.press(typed(*k));
        auto const lines = table.screen(width, height);
        REQUIRE(lines.size() == height);
        for (auto const& line : lines) REQUIRE(cells(line.text) <= width);
      }
}

TEST_CASE("top: sorted by each column and back, the selection stays with its name") {
  auto a = held("a");
  auto b = held("b");
  auto c = held("c");
  a.holder.expires_in = 9s;
  b.holder.expires_in = 5s;
  c.holder.expires_in = 7s;
  b.holder.acquired_at += 1h;
  c.waiting = 3;
  a.holder.owner.host = "z";
  table_of table({a, b, c});
  (void)table.press(down);
  CHECK(has(text_of(table.screen(80, 24)), ">b "));
  CHECK(names_on(table) == words{"a", "b", "c"});
  (void)table.press(typed('s'));
  CHECK(names_on(table) == words{"a", "c", "b"});  // since
  (void)table.press(typed('s'));
  CHECK(names_on(table) == words{"b", "c", "a"});  // left
  (void)table.press(typed('s'));
  CHECK(names_on(table) == words{"c", "a", "b"});  // waiting
  (void)table.press(typed('s'));
  CHECK(names_on(table) == words{"b", "c", "a"});  // owner
  (void)table.press(typed('r'));
  CHECK(names_on(table) == words{"a", "c", "b"});
  (void)table.press(typed('r'));
  (void)table.press(typed('s'));
  CHECK(names_on(table) == words{"a", "b", "c"});
  CHECK(has(text_of(table.screen(80, 24)), ">b "));
  table.take(of({held("0"), a, b, c}, 1s));
  CHECK(has(text_of(table.screen(80, 24)), ">b "));
}

TEST_CASE("top: a filter, typed and taken back") {
  table_of table({held("alpha"), held("beta"), held("\xc3\xa4lpha")});
  for (char const c : std::string("/LPH")) (void)table.press(typed(c));
  CHECK(names_on(table) == words{"alpha", "\xc3\xa4lpha"});
  (void)table.press({key::kind::backspace});
  (void)table.press({key::kind::backspace});
  (void)table.press({key::kind::backspace});
  CHECK(names_on(table).size() == 3);
  (void)table.press({key::kind::text, "\xc3\xa4"});
  (void)table.press(enter);
  CHECK(names_on(table) == words{"\xc3\xa4lpha"});
  (void)table.press({key::kind::escape});
  CHECK(names_on(table).size() == 3);
  (void)table.press(typed('/'));
  (void)table.press(typed('q'));  // a letter, not the end
  CHECK(names_on(table).empty());
}

TEST_CASE("top: revokes what was asked about, after a yes alone, and no later term") {
  table_of table({held("a"), held("b")});
  (void)table.press(down);
  CHECK(table.press(typed('x')).what == wish::kind::nothing);
  CHECK(has(text_of(table.screen(80, 24)), "Revoke 'b' of web1 pid 7? y/N"));
  CHECK(table.press(enter).what == wish::kind::nothing);
  CHECK(table.press(typed('y')).what == wish::kind::nothing);  // no question is open any more
  (void)table.press(typed('x'));
  table.take(of({held("0"), held("a"), held("b")}, 1s));
  auto const yes = table.press(typed('y'));
  CHECK(yes.what == wish::kind::revoke);
  CHECK(yes.name == "b");
  (void)table.press(typed('x'));
  table.take(of({held("a"), held("b", 2)}, 2s));
  CHECK(table.press(typed('y')).what == wish::kind::nothing);
  CHECK(has(text_of(table.screen(80, 24)), "has changed hands"));
  (void)table.press(typed('x'));
  table.take(of({held("a")}, 3s));
  CHECK(table.press(typed('y')).what == wish::kind::nothing);
  auto session = held("s");
  session.holder.strategy = strategy::row_lock;
  table_of others({session});
  (void)others.press(typed('x'));
  CHECK(has(text_of(others.screen(80, 24)), "can't be revoked"));
  CHECK(table.press(typed('q')).what == wish::kind::quit);
}

TEST_CASE("top: counts hand-overs from what it sees, and permits; says who blocks, and what is old") {
  table_of table({held("a"), held("b")});
  table.take(of({held("a", 2), held("b"), held("c")}, 2s));
  CHECK(has(text_of(table.screen(80, 24)), "0.5 hand-overs/s"));
  auto one = held("s");
  one.holder.strategy = strategy::semaphore;
  one.holder.units = 2;
  one.holder.limit = 5;
  auto two = one;
  one.term = {"1"};
  two.term = {"2"};
  auto blocked = held("x");
  blocked.row_locked_by = {{"", 4711, "psql", "alice"}};
  table.take(of({one, two, blocked}, 3s));
  auto const shown = text_of(table.screen(80, 24));
  CHECK(has(shown, " 4/5 "));
  CHECK(has(shown, " 4711"));
  CHECK(has(shown, "3 held of 2 names, 0 waiting, 1 blocked"));
  (void)table.press({key::kind::end});
  (void)table.press(enter);
  CHECK(has(text_of(table.screen(80, 24)), "row locked  session 4711 as alice (psql)"));
  (void)table.press(enter);
  table.fail("the server\nis gone");
  CHECK(has(text_of(table.screen(80, 24)), "no answer: the server\\x0ais gone"));
  CHECK(has(text_of(table.screen(80, 24)), "4711"));
}

TEST_CASE("F19: top: readings take a tenth of the time at most") {
  table_of table({});
  CHECK(table.pause() == 1s);
  auto slow = of({});
  slow.took = 700ms;
  table.take(slow);
  CHECK(table.pause() == 7s);
  CHECK(has(text_of(table.screen(80, 24)), "every 7s (slow answers)"));
}

CLI_CASE("top --once: the table as text, also without a terminal; --json") {
  Place const p;
  CHECK(p.rowlock({"top", "--once"}).out.starts_with("0 held, 0 waiting\nNAME"));
  holder const a(p, {"--ttl", "60s", "--note", "a long note", "job-a"});
  holder const b(p, {"--ttl", "60s", "--permits", "3", "sem\nb"});
  for (words const& options :
       {words{"top"}, words{"top", "--once"}, words{"top", "--once", "--sort", "left"}}) {
    auto const r = p.rowlock(options);
    CHECK(r.status == 0);
    CHECK(has(r.out, fmt::format("pid {}", a.pid())));
    CHECK(has(r.out, "a long note"));
    CHECK(has(r.out, "sem\\x0ab"));
    CHECK(has(r.out, " 1/3 "));
    CHECK_FALSE(has(r.out, "\x1b"));
  }
  CHECK_FALSE(has(p.rowlock({"top", "job-*"}).out, "sem"));
  for (std::string line, text = p.rowlock({"top", "--width", "50"}).out; !text.empty();) {
    line = text.substr(0, text.find('\n'));
    text.erase(0, line.size() + 1);
    CHECK(line.size() <= 50);
  }
  auto const j = json::parse(p.rowlock({"top", "--json"}).out);
  REQUIRE(j["locks"].size() == 2);
  CHECK(j["locks"][0]["name"] == "job-a");
  CHECK(j["locks"][0]["row_locked_by"].is_array());
  CHECK(j["cut"] == false);
  CHECK(json::parse(p.rowlock({"top", "--json", "--limit", "1"}).out)["cut"] == true);
}

TEST_CASE("top: what is wrong on the command line is named") {
  for (words const& option : {words{"--every", "1ms"}, words{"--every", "2h"}, words{"--every", "x"},
                              words{"--sort", "x"}, words{"--limit", "0"}, words{"--width", "3"}}) {
    CAPTURE(option[0]);
    auto const r = run({rowlock_program, "--db", "local", "top", option[0], option[1]});
    CHECK(r.status == 64);
    CHECK(r.says(option[0]));
  }
  auto const none = run({rowlock_program, "--db", "sqlite:/nowhere/x", "top"});
  CHECK(none.status == 78);
}

namespace {

/// A shell in a terminal of tmux's, of which the screen can be read.
class tmux {
 public:
  explicit tmux(place const& p, std::string const& dimensions = "80x24") {
    auto const by = dimensions.find('x');
    environment env = p.variables({{"LC_ALL", "C.UTF-8"}, {"NO_COLOR", ""}});
    auto const r = run(
        {"tmux", "-u", "-S", socket_, "-f", "/dev/null", "new-session", "-d", "-x", dimensions.substr(0, by),
         "-y", dimensions.substr(by + 1), "PS1='prompt> ' exec bash --norc --noprofile --noediting -i"},
        env);
    REQUIRE_MESSAGE(r.status == 0, r.err);
    shows("prompt>");
  }
  ~tmux() { (void)run({"tmux", "-S", socket_, "kill-server"}); }
  tmux(tmux const&) = delete;
  tmux& operator=(tmux const&) = delete;

  /// Names of keys, as tmux has them: "Enter", "C-c", "x".
  void press(words keys) {
    keys.insert(keys.begin(), {"tmux", "-S", socket_, "send-keys", "--"});
    REQUIRE(run(std::move(keys)).status == 0);
  }
  void type(std::string const& line) { press({line, "Enter"}); }
  void resize(std::string const& width, std::string const& height) {
    REQUIRE(run({"tmux", "-S", socket_, "resize-window", "-x", width, "-y", height}).status == 0);
  }
  std::string screen() const { return run({"tmux", "-S", socket_, "capture-pane", "-p"}).out; }
  void shows(std::string const& text) {
    std::string now;
    bool const came = within(60s, [&] { return has(now = screen(), text); });
    CAPTURE(text);
    CAPTURE(now);
    REQUIRE(came);
  }
  void shows_no(std::string const& text) {
    REQUIRE(within(60s, [&] { return !has(screen(), text); }));
  }
  /// Runs rowlock there, and returns its pid.
  pid_t start(place const& p, words const& arguments) {
    auto const file = folder_.file("pid");
    std::string line = fmt::format("sh -c 'echo $$ >{}; exec \"$@\"' sh", file);
    for (auto const& word : p.command(arguments)) line += ' ' + shell_word(word);
    type("clear; " + line);
    pid_t pid = 0;
    REQUIRE(within(60s, [&] {
      auto const text = read_file(file);
      pid = text.ends_with('\n') ? std::stoi(text) : 0;
      return pid != 0;
    }));
    std::remove(file.c_str());
    return pid;
  }
  /// Whether the terminal is as a shell's command has it.
  void is_in_order() {
    type("clear; stty -a | grep -o '[^ ]*echo ' | tr -d ' '; stty -a | grep -o '[^ ]*icanon' ; echo do''ne");
    shows("done");
    CHECK(screen().starts_with("echo\nicanon\ndone\n"));
  }

 private:
  scratch_folder folder_;
  std::string socket_ = folder_.file("s");
};

/// A transaction of somebody else's.
class other_session {
 public:
  explicit other_session(place const& p, std::string const& sql)
      : db_(::PQconnectdb(p.url().c_str()), &::PQfinish) {
    auto const all = "BEGIN; SET LOCAL search_path = " + p.options().at(1) + "; " + sql;
    std::unique_ptr<PGresult, void (*)(PGresult*)> const done(::PQexec(db_.get(), all.c_str()), &::PQclear);
    REQUIRE(::PQresultStatus(done.get()) != PGRES_FATAL_ERROR);
  }
  int pid() const { return ::PQbackendPID(db_.get()); }

 private:
  std::unique_ptr<PGconn, void (*)(PGconn*)> db_;
};

}  // namespace

TEST_CASE_TEMPLATE("top: under tmux: the table, details, sort, filter, help, revoke, quit", Place,
                   on_postgresql) {
  Place const p;
  holder a(p, {"--ttl", "9s", "job-a"});
  holder const b(p, {"--ttl", "60s", "\u6f22\u5b57"});
  program waits(p.command({"run", "job-a", "--", "sh", "-c", "echo ready; sleep 100"}), p.variables());
  tmux t(p);
  (void)t.start(p, {"top"});
  t.shows(">job-a            held  ");
  t.shows("2 held, 1 waiting");
  t.shows(" \u6f22\u5b57             held  ");
  t.shows(fmt::format("pid {}", a.pid()));
  t.shows("q quit  h help");
  t.press({"Enter"});
  t.shows("strategy    lease");
  t.shows("waiting     1\n            session ");
  t.press({"Enter", "Down"});
  t.shows(">\u6f22\u5b57");
  t.press({"s", "s", "r"});
  t.shows("by left, reversed\n");
  t.shows("BLOCKER\n>\u6f22\u5b57");
  t.press({"h"});
  t.shows("Keys\n  Up, Down");
  t.press({"q", "/", "j", "o", "b", "Enter"});
  t.shows("; 1 with 'job'");
  t.shows(">job-a");
  t.press({"x"});
  t.shows("Revoke 'job-a' of");
  t.press({"n"});
  t.shows("nothing was revoked");
  t.press({"x"});
  t.shows("Revoke 'job-a' of");
  t.press({"y"});
  t.shows("'job-a' was revoked");
  CHECK(a.wait() == 76);
  CHECK(waits.prints("ready"));
  t.shows(fmt::format("pid {}", waits.pid()));
  t.press({"q"});
  t.shows("prompt>");
  t.is_in_order();
}

TEST_CASE_TEMPLATE("top: under tmux: who has a row locked", Place, on_postgresql) {
  Place const p;
  holder const a(p, {"--ttl", "60s", "job-a"});
  tmux t(p);
  (void)t.start(p, {"top", "--every", "100ms"});
  t.shows(">job-a");
  other_session const other(p,
                            "SET LOCAL application_name = 'nightly'; SELECT 1 FROM rowlock_locks FOR UPDATE");
  t.shows(", 1 blocked");
  t.shows(fmt::format(" {}\n", other.pid()));
  t.press({"Enter"});
  t.shows(fmt::format("row locked  session {}", other.pid()));
  CHECK(json::parse(p.rowlock({"top", "--json"}).out)["locks"][0]["row_locked_by"][0]["session"] ==
        other.pid());
}

TEST_CASE_TEMPLATE("F22: top: under tmux: resized, suspended, and ended by signals, the terminal is in order",
                   Place, on_postgresql) {
  Place const p;
  holder const a(p, {"--ttl", "60s", "job-a"});
  tmux t(p);
  for (int const signal : {SIGTERM, SIGINT, SIGHUP}) {
    auto const pid = t.start(p, {"top", "--every", "100ms"});
    t.shows(">job-a");
    t.resize("30", "6");
    t.shows("every~\n NAME ");
    t.resize("3", "1");
    t.shows(">j~");
    t.resize("120", "30");
    t.shows("BLOCKER TOKEN");
    t.resize("80", "24");
    t.shows("q quit  h help");
    ::kill(pid, signal);
    t.shows("prompt>");
    t.type("echo st''atus $?");
    t.shows(fmt::format("status {}", 128 + signal));
    t.is_in_order();
  }
  (void)t.start(p, {"top"});
  t.shows(">job-a");
  t.press({"C-z"});
  t.shows("Stopped");
  t.is_in_order();
  t.type("fg");
  t.shows(">job-a");
  t.shows("q quit");
  t.press({"C-c"});
  t.shows("prompt>");
  t.type("echo st''atus $?");
  t.shows("status 130");
}

TEST_CASE_TEMPLATE("F22: top: while the database does not answer: resized, and ended", Place, on_postgresql) {
  Place const p;
  holder const a(p, {"--ttl", "60s", "job-a"});
  tmux t(p);
  (void)t.start(p, {"top", "--every", "100ms"});
  t.shows(">job-a");
  {
    other_session const other(p, "LOCK TABLE rowlock_locks IN ACCESS EXCLUSIVE MODE");
    auto const hangs = [&] {
      auto const before = t.screen().substr(0, 40);
      return !within(1s, [&] { return t.screen().substr(0, 40) != before; });
    };
    REQUIRE(within(60s, hangs));
    t.resize("60", "12");
    t.shows("WAIT\n>job-a");
    t.press({"h"});
    t.shows("Keys");
    t.press({"q"});
    t.shows(">job-a");
    t.resize("80", "24");
    t.shows("BLOCKER\n>job-a");
    t.press({"q"});
    t.shows("prompt>");
    t.is_in_order();
    (void)t.start(p, {"top"});
    t.press({"C-c"});
    t.shows("prompt>");
    t.is_in_order();
  }
}

TEST_CASE_TEMPLATE("top: on a terminal without a cursor: once", Place, on_sqlite) {
  Place const p;
  holder const a(p, {"--ttl", "60s", "job-a"});
  tmux t(p);
  t.type("export TERM=dumb");
  (void)t.start(p, {"top"});
  t.shows("job-a ");
  t.shows("prompt>");
}
