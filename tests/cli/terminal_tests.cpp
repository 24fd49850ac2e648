// Under a terminal, with a shell that has job control. The lock is a real one, in the user's own SQLite file.

#include "cli/terminal.hpp"

#include <doctest/doctest.h>

#include <csignal>

using namespace rowlock::test;

namespace {

std::string const run_it = rowlock_program + " --db local run ";

/// A command that Ctrl-C ends whenever it comes. Not "echo; sleep": a shell that gets it just while it starts
/// a child may lose it (dash, between vfork and exec), and would wait for the child to its end, under rowlock
/// or not.
std::string const ready_then_sleeps = "echo re''ady; exec sleep 100";

}  // namespace

TEST_CASE("terminal: the command reads from it, in the foreground") {
  terminal t;
  t.type(run_it + "n -- sh -c 'echo re''ady; read line; echo \"got $line\"'; echo status $?\n");
  t.expect("ready");
  t.type("some words\n");
  t.expect("got some words");
  t.expect("status 0");
}

TEST_CASE("terminal: Ctrl-C reaches the command once, and the shell sees what it made of it") {
  terminal t;
  t.type(run_it +
         "n -- sh -c 'trap \"echo c''aught\" INT; echo re''ady; read line; echo \"then $line\"; exit 7'; "
         "echo status $?\n");
  t.expect("ready");
  t.type("\x03");
  t.expect("caught");
  t.type("x\n");
  t.expect("status 7");
  t.type(run_it + "n -- sh -c \"" + ready_then_sleeps + "\"; echo status $?\n");
  t.expect("ready");
  t.type("\x03");
  t.expect("prompt> ");
  t.type("echo status $?\n");
  t.expect("status 130");
}

TEST_CASE("terminal: Ctrl-C ends a loop around rowlock, as around any command") {
  terminal t;
  t.type("bash -c 'for i in 1 2 3; do " + run_it + "n -- sh -c \"" + ready_then_sleeps +
         "\"; done; echo no''t reached'\n");
  t.expect("ready");
  t.type("\x03");
  t.expect("prompt> ");
  t.type("echo status $?\n");
  t.expect("status 130");
}

TEST_CASE("terminal: Ctrl-C while it waits for the lock") {
  terminal t;
  t.type(run_it + "n -- sleep 100 &\n");
  t.expect("prompt> ");
  t.type("until " + rowlock_program + " list | grep -q held; do :; done; echo t''aken; " + run_it +
         "n -- true\n");
  t.expect("taken");
  CHECK_FALSE(within(300ms, [] { return false; }));
  t.type("\x03");
  t.expect("prompt> ");
  t.type("echo status $?; kill %1\n");
  t.expect("status 130");
}

TEST_CASE("terminal: Ctrl-Z suspends the job, fg goes on with it") {
  terminal t;
  auto const mark = unique_identifier();
  t.type(run_it + mark + " -- sh -c ': " + mark + "; echo re''ady; read line; echo \"got $line\"'\n");
  t.expect("ready");
  t.type("\x1a");
  t.expect("Stopped");
  // The shell only looks at rowlock: a command that has not come to its stop yet would still read what is
  // typed.
  REQUIRE(within(60s, [&] { return all_stopped_with(mark); }));
  t.type("fg\n");
  t.expect("run " + mark);
  t.type("some words\n");
  t.expect("got some words");
  t.type("echo status $?\n");
  t.expect("status 0");
}

TEST_CASE("terminal: a job that stays suspended is ended before its ttl is over, and says so after fg") {
  terminal t;
  t.type(run_it + "--ttl 6s n -- sh -c \"" + ready_then_sleeps + "\"\n");
  t.expect("ready");
  t.type("\x1a");
  t.expect("Stopped");
  // Somebody else gets it while the job is still suspended.
  t.type(run_it + "--wait 60s n -- echo o''ther; jobs\n");
  t.expect("other");
  t.expect("Stopped");
  t.type("fg; echo status $?\n");
  t.expect("was lost");
  t.expect("status 76");
}

TEST_CASE("C16: programs that read key by key, suspend themselves, or are shells with jobs of their own") {
  terminal t;
  t.type(run_it +
         "n sh -c 'stty -icanon -echo; echo re''ady; k=$(dd bs=1 count=1 2>/dev/null); stty icanon echo; "
         "echo \"got <$k>\"'\n");
  t.expect("ready");
  t.type("q");
  t.expect("got <q>");
  t.expect("prompt> ");
  // As an editor does at Ctrl-Z, which it reads as a key: it stops the whole group.
  t.type(run_it + "n sh -c 'kill -TSTP 0; echo ag''ain'\n");
  t.expect("Stopped");
  t.expect("prompt> ");
  t.type("fg\n");
  t.expect("again");
  t.expect("prompt> ");
  t.type(run_it + "n bash --norc --noprofile --noediting -i\n");
  t.expect("prompt> ");
  t.type("cat\n");
  t.type("a line\n");
  t.expect("a line");  // as typed
  t.expect("a line");  // as cat says it
  t.type("\x1a");
  t.expect("Stopped");
  t.expect("prompt> ");
  t.type("fg\n");
  t.type("another\n");
  t.expect("another");
  t.expect("another");
  t.type("\x04");
  t.expect("prompt> ");
  t.type("exit 5\n");
  t.expect("prompt> ");
  t.type("echo status $?\n");
  t.expect("status 5");
}

TEST_CASE("C16: a terminal that goes away ends the command, also where rowlock is the session's leader") {
  for (std::string const script :
       {"echo pid $$ is ready; exec sleep 100", "echo pid $$ is ready; kill -STOP $$; sleep 100"}) {
    bool const stops = script.find("STOP") != script.npos;
    CAPTURE(stops);
    auto const mark = unique_identifier();
    terminal t({rowlock_program, "--db", "local", "run", mark, "sh", "-c", script});
    t.expect("pid ");
    auto const stat = "/proc/" + t.until(" is ready") + "/stat";
    if (stops) REQUIRE(within(60s, [&] { return read_file(stat).find(") T ") != std::string::npos; }));
    CHECK(t.hang_up() == 128 + SIGHUP);
    CHECK(within(60s, [&] { return !any_process_with(mark) && read_file(stat).empty(); }));
    CHECK(run({rowlock_program, "--db", "local", "run", "--no-wait", mark, "true"}, {{"HOME", t.home()}})
              .status == 0);
  }
}
