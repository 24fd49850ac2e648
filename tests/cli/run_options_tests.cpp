// What users of flock(1) and of other runners look for in rowlock run.

#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "cli/place.hpp"
#include "cli/terminal.hpp"

using namespace rowlock::test;

CLI_CASE("issue 10: --hard-limit ends a command that hangs, in time, and says so") {
  Place const p;
  for (std::string const ttl : {"5s", "30s"}) {
    CAPTURE(ttl);
    auto const began = std::chrono::steady_clock::now();
    program hangs(p.command({"run", "--ttl", ttl, "--hard-limit", "8s", "n", "--", "sh", "-c",
                             "trap '' TERM; echo ready; while :; do sleep 1; done"}),
                  p.variables());
    REQUIRE(hangs.prints("ready"));
    CHECK(hangs.wait() == 76);
    CHECK(seconds_since(began) > 2);
    CAPTURE(hangs.err());
    CHECK(hangs.err().find(fmt::format("the lock 'n' was lost: --hard-limit 8s was near, and the command's "
                                       "grace of {} had to fit in before it. The command was ended",
                                       ttl == "5s" ? "833ms" : "1.3s")) != std::string::npos);
    CHECK(p.rowlock({"run", "--wait", "20s", "n", "--", "true"}).status == 0);
  }
  CHECK(p.rowlock({"run", "--hard-limit", "60s", "n", "--", "sh", "-c", "exit 3"}).status == 3);
  auto const no_room = p.rowlock({"run", "--hard-limit", "2s", "--grace", "1500ms", "n", "--", "true"});
  CHECK(no_room.status == 64);
  CHECK(no_room.says("--grace 1.5s does not fit into --hard-limit 2s"));
  CHECK(no_room.says("Give --grace 660ms or less"));
  if (p.strategies().size() > 2) {
    auto const never = p.rowlock({"run", "--strategy", "row_lock", "--hard-limit", "2s", "n", "--", "true"});
    CHECK(never.status == 64);
    CHECK(never.says("--hard-limit can't be used with row_lock"));
  }
}

TEST_CASE("issue 10: a command has more than half of a short --hard-limit, too") {
  on_sqlite const p;
  for (auto const& one : std::map<std::string, double>{{"300ms", 0.15}, {"1s", 0.5}, {"2s", 1}}) {
    auto const& limit = one.first;  // not a structured binding: clang++ 14 has none in CAPTURE()
    auto const half = one.second;
    CAPTURE(limit);
    auto const began = std::chrono::steady_clock::now();  // before it was taken, so that no load makes it red
    auto const hangs = p.rowlock({"run", "--hard-limit", limit, "n", "--", "sleep", "100"});
    CHECK(hangs.status == 76);
    CHECK(seconds_since(began) > half);
    CHECK(hangs.says("--hard-limit " + limit + " was near"));
  }
  for (words const& wrong : {words{"--hard-limit", "1s", "--grace", "400ms"}, {"--hard-limit", "50ms"}}) {
    auto args = wrong;
    args.insert(args.begin(), "run");
    args.insert(args.end(), {"n", "--", "true"});
    CHECK(p.rowlock(args).status == 64);
  }
}

TEST_CASE(
    "issue 10: --hard-limit is named also where the lock was granted late: it counts from the question") {
  on_postgresql const p;
  REQUIRE(p.rowlock({"run", "n", "--", "true"}).status == 0);  // makes the row
  // For less than the second for which a take waits. Where it comes later than the take, or is over before,
  // it shows nothing.
  std::jthread const in_the_way(
      [&] { p.sql("BEGIN; UPDATE rowlock_locks SET note = 'x'; SELECT pg_sleep(0.8); COMMIT"); });
  CHECK(p.rowlock({"run", "--hard-limit", "2s", "n", "--", "sleep", "100"}).says("--hard-limit 2s was near"));
}

CLI_CASE("issue 10: -n, -w and -E are as with flock") {
  Place const p;
  holder const h(p, {"n"});
  CHECK(p.rowlock({"run", "-n", "n", "--", "true"}).status == 75);
  CHECK(p.rowlock({"run", "-E", "9", "-n", "n", "--", "true"}).status == 9);
  CHECK(p.rowlock({"run", "-nE9", "n", "--", "true"}).status == 9);
  CHECK(p.rowlock({"run", "-E", "0", "-n", "n", "--", "true"}).says("held by"));
  for (words const& wait : {words{"-w", "0.5"}, {"-w0.5"}, {"--wait-seconds=0.5"}, {"-w", "500ms"}}) {
    auto args = wait;
    args.insert(args.begin(), "run");
    args.insert(args.end(), {"--conflict-exit-code=0", "n", "--", "true"});
    auto const began = std::chrono::steady_clock::now();
    auto const r = p.rowlock(args);
    CHECK(r.status == 0);
    CHECK(r.says("'n' could not be taken within 500ms"));
    CHECK(seconds_since(began) > 0.45);
  }
  // Of a conflict alone, and not what the command ends with.
  CHECK(p.rowlock({"run", "-n", "-E", "9", "m", "--", "sh", "-c", "exit 75"}).status == 75);
}

TEST_CASE("issue 10: 64 for what -n, -w and -E do not take") {
  on_sqlite const p;
  for (words const& wrong : {words{"-w", "x"},
                             {"-w", "-1"},
                             {"-w", "nan"},
                             {"-w", "inf"},
                             {"-w", "1e3x"},
                             {"-w", ""},
                             {"-E", "256"},
                             {"-E", "-1"},
                             {"-E", "x"}}) {
    CAPTURE(wrong.front() + " " + wrong.back());
    CHECK(p.rowlock({"run", wrong.front(), wrong.back(), "n", "--", "true"}).status == 64);
  }
  CHECK(p.rowlock({"run", "-n", "-w", "1", "n", "--", "true"}).status == 64);
  CHECK(p.rowlock({"run", "--wait", "1s", "-w", "1", "n", "--", "true"}).status == 64);
}

TEST_CASE(
    "issue 10: no -- is needed if no option stands behind NAME; the command's words reach it as they are") {
  on_sqlite const p;
  for (words const& before : {words{"run", "n"},
                              {"run", "-n", "n"},
                              {"run", "-w", "5", "n"},
                              {"run", "-w5", "n"},
                              {"run", "--wait", "5s", "n"},
                              {"run", "--wait=5s", "n"},
                              {"run", "-nE", "5", "n"},
                              {"run", "--db", p.url(), "n"},
                              {"--db", p.url(), "--json", "run", "--note", "run", "n"}}) {
    auto args = before;
    args.insert(args.end(), {"printf", "<%s>", "[x,y]", "", "[]", "--db", "--", "--help", "-x", "a b"});
    auto const r = p.rowlock(args);
    CAPTURE(r.err);
    CHECK(r.status == 0);
    CHECK(r.out == "<[x,y]><><[]><--db><--><--help><-x><a b>");
  }
  CHECK(p.rowlock({"run", "n", "sh", "-c", "exit 3"}).status == 3);
  // An option behind NAME: which of its words is the command's first is for -- to say.
  for (words const& unclear :
       {words{"run", "n", "--wait", "5s", "true"}, {"run", "n", "-n", "true"}, {"run", "n"}}) {
    auto const r = p.rowlock(unclear);
    CHECK(r.status == 64);
    CHECK(r.out.empty());
  }
}

CLI_CASE("issue 10: who asks for the lock that it runs under is told so at once") {
  Place const p;
  for (auto const& strategy : p.strategies()) {
    for (words const& patience : {words{}, {"--no-wait"}, {"--wait", "100s"}}) {
      CAPTURE(strategy);
      words inner = p.command({"run", "--strategy", strategy});
      inner.insert(inner.end(), patience.begin(), patience.end());
      inner.insert(inner.end(), {strategy, "echo", "inside"});
      words outer{"run", "--strategy", strategy, strategy, "--"};
      outer.insert(outer.end(), inner.begin(), inner.end());
      auto const r = p.rowlock(outer);
      CHECK(r.status == 64);
      CHECK(r.out.empty());
      CHECK(r.says(fmt::format("this runs under '{}' already", strategy)));
    }
  }
  // Another name, another database, or the name after all is over: no.
  auto const inner = p.command({"run", "-n", "b", "echo", "inside"});
  words outer{"run", "a"};
  outer.insert(outer.end(), inner.begin(), inner.end());
  CHECK(p.rowlock(outer).out == "inside\n");
  on_sqlite const other;
  holder const h(other, {"a"});
  words elsewhere{"run", "a", rowlock_program, "--db", other.url(), "run", "-n", "a", "true"};
  auto const busy = p.rowlock(elsewhere);
  CHECK(busy.status == 75);
  CHECK(busy.says(fmt::format("pid {}", h.pid())));
  CHECK(p.rowlock({"run", "a", "true"}, {{"ROWLOCK_NAME", "a"}, {"ROWLOCK_TOKEN", "1"}}).status == 0);
}

TEST_CASE("issue 10: an unknown command: all that there are, and the nearest") {
  auto const commands = [](words args) {
    args.insert(args.begin(), rowlock_program);
    return run(std::move(args));
  };
  auto const frob = commands({"frob"});
  CHECK(frob.status == 64);
  for (auto const* one :
       {"run", "once", "take", "renew", "list", "release", "reap", "migrate", "doctor", "version"})
    CHECK(frob.says(one));
  CHECK(commands({"lst"}).says("there is no command 'lst'; did you mean list?"));
  CHECK(commands({"docter"}).says("did you mean doctor?"));
  CHECK(commands({"--json", "verison"}).says("did you mean version?"));
  CHECK(commands({"migrate", "stats"}).says("did you mean status? There are: up, down"));
}

TEST_CASE("issue 10: on a terminal it says for whom it waits, and the line is gone when it has the lock") {
  terminal t;
  scratch_folder const folder;
  auto const end = folder.file("end");
  auto const run_it = rowlock_program + " --db local run ";
  t.type("export TERM=xterm\n");
  t.expect("prompt> ");
  t.type(run_it + "n sh -c 'until [ -e " + end + " ]; do sleep 0.1; done' & P=$!\n");
  t.expect("prompt> ");
  t.type("until " + rowlock_program + " --db local list | grep -q held; do :; done; echo ta''ken $P by\n");
  t.expect("taken ");
  auto const pid = t.until(" by");
  t.type(run_it + "n echo in''side\n");
  t.expect("rowlock: waiting for 'n', held by ");
  t.expect("pid " + pid + " since 20");
  t.type("x\x15");
  std::ofstream(end) << "";
  t.expect("\r\x1b[K");
  t.expect("inside");
  // Nothing if nobody looks.
  t.type("rm " + end + "; " + run_it + "n sh -c 'until [ -e " + end + " ]; do sleep 0.1; done' &\n");
  t.expect("prompt> ");
  t.type("until " + rowlock_program + " --db local list | grep -q held; do :; done; " + run_it +
         "-w 1 n true 2>" + folder.file("err") + "; touch " + end + "; echo o''ver\n");
  t.expect("over");
  CHECK(read_file(folder.file("err")).find("waiting") == std::string::npos);
  CHECK(read_file(folder.file("err")).find("could not be taken") != std::string::npos);
}
