// rowlock quorum, and run, list, release and doctor with several --db.

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <rowlock/sqlite.hpp>

#include "backend/backend.hpp"
#include "cli/program.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

/// Three files, each with rowlock's tables.
struct three_files {
  scratch_folder folder;
  std::string url(int i) const { return "sqlite:" + folder.file(std::to_string(i) + ".db"); }
  finished at(int i, words args) const {
    args.insert(args.begin(), {rowlock_program, "--db", url(i)});
    return run(args);
  }
  words with(words args, std::vector<int> const& which = {1, 2, 3}) const {
    words all{rowlock_program};
    for (int const i : which) all.insert(all.end(), {"--db", url(i)});
    all.insert(all.end(), args.begin(), args.end());
    return all;
  }
  finished all(words args, std::vector<int> const& which = {1, 2, 3}) const { return run(with(args, which)); }
  void wipe(int i) const {
    CHECK(at(i, {"migrate", "down", "--to", "0", "--force", "--forget-tokens"}).status == 0);
    CHECK(at(i, {"migrate", "up"}).status == 0);
  }

  three_files() {
    for (int i = 1; i <= 3; ++i) REQUIRE(at(i, {"migrate", "up"}).status == 0);
  }
};

}  // namespace

TEST_CASE("quorum: init, status, run under it, list, a member that was wiped, join, drop") {
  three_files const q;
  CHECK(q.all({"run", "x", "--", "true"}).status == 78);
  CHECK(q.all({"quorum", "status"}).status == 1);
  auto const made = q.all({"quorum", "init", "--max-ttl", "9s"});
  CHECK(made.status == 0);
  CHECK(made.out.find("3 of 3 vote, 2 are needed; the longest ttl is 9s.") != std::string::npos);

  CHECK(q.all({"run", "--ttl", "9s", "x", "--", "sh", "-c", "exit 7"}).status == 7);
  program held(q.with({"run", "--ttl", "9s", "--note", "why", "x", "--", "sh", "-c", "echo in; sleep 100"}));
  REQUIRE(held.prints("in"));
  auto const busy = q.all({"run", "-n", "--ttl", "9s", "x", "--", "true"});
  CHECK(busy.status == 75);
  CHECK(busy.says("held by"));
  auto const list = json::parse(q.all({"list", "--json"}).out);
  REQUIRE(list.size() == 1);
  CHECK(list[0]["name"] == "x");
  CHECK(list[0]["members"].size() == 3);
  CHECK(q.all({"list"}).out.find("why") != std::string::npos);

  q.wipe(3);
  auto const status = json::parse(q.all({"quorum", "status", "--json"}).out);
  CHECK(status["voting"] == 2);
  CHECK(status["findings"].dump().find("belongs to no quorum") != std::string::npos);
  CHECK(q.all({"doctor"}).out.find("quorum") != std::string::npos);
  auto const joined = q.all({"quorum", "join", q.url(3)}, {1, 2});
  CHECK(joined.status == 0);
  CHECK(joined.out.find("3 of 3 vote") != std::string::npos);
  CHECK(alive(held.pid()));  // a join costs no lock

  auto const taken = q.all({"release", "--force", "x"});
  CHECK(taken.status == 0);
  CHECK(held.wait() == 76);

  CHECK(q.all({"quorum", "drop"}).status == 64);
  CHECK(q.all({"quorum", "drop", "--force"}).status == 0);
  CHECK(q.all({"run", "--ttl", "1s", "x", "--", "true"}).status == 78);
}

TEST_CASE("quorum: an init that goes on where others vote says that it waits, and can be interrupted then") {
  three_files const q;
  auto const falls_back = [&] {
    auto const soon = rowlock::boot_clock::now() + std::chrono::seconds(10);
    rowlock::sqlite::source(q.folder.file("3.db"))
        .implementation()
        ->connect(soon)
        ->script("UPDATE rowlock_quorum SET votes = 0, epoch_id = '-' || substr(epoch_id, 2)", soon);
  };
  SUBCASE("it waits") {
    REQUIRE(q.all({"quorum", "init", "--max-ttl", "1s"}).status == 0);
    falls_back();
    auto const again = q.all({"quorum", "init", "--max-ttl", "1s"});
    CHECK(again.status == 0);
    CHECK(again.says("as long as the longest ttl"));
    CHECK(again.out.find("3 of 3 vote") != std::string::npos);
    CHECK_FALSE(q.all({"quorum", "init", "--max-ttl", "1s"}).says("as long as the longest ttl"));
  }
  SUBCASE("it is interrupted") {
    REQUIRE(q.all({"quorum", "init", "--max-ttl", "1h"}).status == 0);
    falls_back();
    program waits(q.with({"quorum", "init", "--max-ttl", "1h"}));
    REQUIRE(within(std::chrono::seconds(60),
                   [&] { return waits.err().find("as long as the longest ttl") != std::string::npos; }));
    waits.signal(SIGINT);
    CHECK(waits.wait() == 128 + SIGINT);
    CHECK(q.all({"quorum", "status"}).out.find("2 of 3 vote") != std::string::npos);
  }
}

TEST_CASE("quorum: the command is ended before trust ends when a majority is gone") {
  three_files const q;
  REQUIRE(q.all({"quorum", "init", "--max-ttl", "6s"}).status == 0);
  program held(q.with({"run", "--ttl", "6s", "x", "--", "sh", "-c", "echo in; sleep 100"}));
  REQUIRE(held.prints("in"));
  for (int const i : {1, 2}) q.wipe(i);
  CHECK(held.wait() == 76);
  CHECK(held.err().find("was lost") != std::string::npos);
}

TEST_CASE("quorum: 64 for two databases, for commands of one database, and for what a quorum does not have") {
  three_files const q;
  CHECK(q.all({"run", "x", "--", "true"}, {1, 2}).status == 64);
  for (words const& of_one : {words{"take", "x", "--ttl", "1s"},
                              {"reap"},
                              {"migrate", "up"},
                              {"leader", "x"},
                              {"lead", "x", "--", "true"},
                              {"once", "x", "--for", "1d", "--", "true"},
                              {"list", "--all"},
                              {"run", "--shared", "x", "--", "true"},
                              {"run", "--strategy", "lease", "x", "--", "true"},
                              {"run", "x", "--and", "y", "--", "true"}}) {
    CAPTURE(of_one.front());
    CHECK(q.all(of_one).status == 64);
  }
  CHECK(run({rowlock_program, "quorum"}).status == 64);
  CHECK(q.all({"quorum", "init", "--max-ttl", "10ms"}).status == 64);
}

TEST_CASE("quorum: status tells a terminal nothing but text, and counts a database once") {
  three_files const q;
  REQUIRE(q.all({"quorum", "init", "--max-ttl", "1s"}).status == 0);
  auto const twice = q.all({"quorum", "status"}, {1, 1, 1});
  CHECK(twice.status == 1);
  CHECK(twice.out.find("1 of 3 vote, 2 are needed") != std::string::npos);
  CHECK(q.all({"doctor"}, {1, 1, 1}).status == 1);
  auto const soon = rowlock::boot_clock::now() + std::chrono::seconds(10);
  rowlock::sqlite::source(q.folder.file("2.db"))
      .implementation()
      ->connect(soon)
      ->script("UPDATE rowlock_meta SET database_id = char(27) || 'c' || substr(database_id, 3)", soon);
  auto const seen = q.all({"quorum", "status"});
  CHECK(seen.out.find('\033') == std::string::npos);
  CHECK(q.all({"quorum", "status", "--json"}).out.find('\033') == std::string::npos);
}

TEST_CASE("quorum: release --force says which members it could not ask, and fails if they are too many") {
  three_files const q;
  REQUIRE(q.all({"quorum", "init", "--max-ttl", "1s"}).status == 0);
  std::filesystem::remove(q.folder.file("3.db"));
  auto const some = q.all({"release", "--force", "x"});
  CHECK(some.status == 0);
  CHECK(some.says("could not be asked: "));
  std::filesystem::remove(q.folder.file("2.db"));
  CHECK(q.all({"release", "--force", "x"}).status != 0);
  auto const dropped = q.all({"quorum", "drop", "--force"});
  CHECK(dropped.status == 0);
  CHECK(dropped.out == "1 of 3 databases belong to no quorum any more.\n");
  std::filesystem::remove(q.folder.file("1.db"));
  CHECK(q.all({"quorum", "drop", "--force"}).status != 0);
}

TEST_CASE(
    "quorum: list says what it does not know: which member did not answer, and 69 if they are too many") {
  three_files const q;
  REQUIRE(q.all({"quorum", "init", "--max-ttl", "10s"}).status == 0);
  program held(q.with({"run", "--ttl", "10s", "x", "--", "sh", "-c", "echo in; sleep 100"}));
  REQUIRE(held.prints("in"));
  std::filesystem::rename(q.folder.file("3.db"), q.folder.file("gone"));
  auto const some = q.all({"list", "--json"});
  CHECK(some.status == 0);
  auto const list = json::parse(some.out);
  REQUIRE(list.size() == 1);
  REQUIRE(list[0]["members"].size() == 3);
  CHECK(list[0]["members"][0]["state"] == "held");
  CHECK_FALSE(list[0]["members"][0].contains("trouble"));
  CHECK(list[0]["members"][2]["trouble"].is_string());
  CHECK(some.says("member 3"));
  // Where there is no name to tell it beside, it is told on standard error alone.
  auto const no_name = q.all({"list", "--json", "no such *"});
  CHECK(no_name.status == 0);
  CHECK(no_name.out == "[]\n");
  CHECK(no_name.says("member 3"));
  std::filesystem::rename(q.folder.file("2.db"), q.folder.file("gone, too"));
  auto const few = q.all({"list"});
  CHECK(few.status == 69);
  CHECK(few.says("1 of 3 members could be asked"));
  std::filesystem::rename(q.folder.file("1.db"), q.folder.file("gone as well"));
  for (auto const& none : {q.all({"list"}), q.all({"list", "--json"})}) {
    CHECK(none.status == 69);
    CHECK(none.says("what is held is not known"));
  }
}

TEST_CASE(
    "quorum: a password file is for the members that can have one, also in a join, and for one at least") {
  three_files const q;
  std::ofstream(q.folder.file("password")) << "hush\n";
  words const with_file{"--password-file", q.folder.file("password")};
  words const mysql{"--db", "mysql://u@127.0.0.1:1/d", "--db", q.url(2)};
  auto const told = [&](words args) {
    args.insert(args.begin(), rowlock_program);
    args.insert(args.end(), with_file.begin(), with_file.end());
    return run(args);
  };
  words joins_a_file{"quorum", "join", q.url(1)};
  joins_a_file.insert(joins_a_file.end(), mysql.begin(), mysql.end());
  auto const file = told(joins_a_file);
  CHECK(file.status == 78);  // too few of the others vote
  CHECK_FALSE(file.says("--password-file is for"));
  auto const server = told({"quorum", "join", "mysql://u@127.0.0.1:1/d", "--db", q.url(1), "--db", q.url(2)});
  CHECK(server.status == 69);
  auto const nobodys = told({"quorum", "join", q.url(3), "--db", q.url(1), "--db", q.url(2)});
  CHECK(nobodys.status == 64);
  CHECK(nobodys.says("--password-file is for"));
  CHECK(told(q.with({"quorum", "status"})).status == 64);
}
