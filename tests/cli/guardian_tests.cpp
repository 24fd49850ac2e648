// The guardian on its own, with a pretended lock (guarded.cpp): no database.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/place.hpp"
#include "cli/program.hpp"
#include "process/command.hpp"

using namespace rowlock::test;

namespace {

using clock_type = std::chrono::steady_clock;

/// ttl, grace and slack in milliseconds, then the command. A ttl of 9 s: trusted for 8.1 s, renewed each 3 s;
/// so a busy machine may hold up a renewal for 5 s.
words guarded(words command, int grace = 400, int ttl = 9000, words more = {}, int slack = 60) {
  words all{guarded_program, std::to_string(ttl), std::to_string(grace), std::to_string(slack)};
  all.insert(all.end(), more.begin(), more.end());
  all.emplace_back("--");
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

words shell(std::string const& script) { return {"sh", "-c", script}; }

/// A number for `sleep` that no other process has among its words.
std::string unique_sleep() {
  static int count = 0;
  return fmt::format("7{}.{}", ::getpid(), ++count);
}

/// Writes the time to `file` each few milliseconds, in a session of its own and cut off from its parents;
/// ignores SIGTERM.
std::string daemon_that_writes(std::string const& file) {
  return fmt::format(
      "(setsid sh -c 'trap \"\" TERM HUP; while :; do date +%s.%N >>{}; sleep 0.01; done' >/dev/null 2>&1 &)",
      file);
}

/// Says when one of these signals comes, whenever that is, and goes on for a while: another one might follow.
std::string goes_on_for_a_second_after(std::string const& signals) {
  return "n=0; trap 'echo got; n=1' " + signals +
         "; echo ready; until [ $n = 11 ]; do sleep 0.1; [ $n = 0 ] || n=$((n + 1)); done; exit 9";
}

double last_line(std::string const& file) {
  auto text = read_file(file);
  if (!text.empty()) text.pop_back();
  return std::strtod(text.substr(text.rfind('\n') + 1).c_str(), nullptr);
}

bool is_stopped(pid_t pid) {
  return read_file(fmt::format("/proc/{}/stat", pid)).find(") T ") != std::string::npos;
}

/// rowlock first: it has a guardian that is stopped go on.
void stop_both(program const& p, pid_t guardian) {
  p.signal(SIGSTOP);
  REQUIRE(within(60s, [&] { return is_stopped(p.pid()); }));
  ::kill(guardian, SIGSTOP);
  REQUIRE(within(60s, [&] { return is_stopped(guardian); }));
}

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TEST_CASE("guardian: the command's own exit status comes back") {
  CHECK(run(guarded({"true"})).status == 0);
  CHECK(run(guarded(shell("exit 7"))).status == 7);
  CHECK(run(guarded(shell("kill -9 $$"))).status == 128 + SIGKILL);
}

TEST_CASE("guardian: the command sees name, token and term, and its words as they were") {
  auto const r = run(guarded(shell("echo \"$ROWLOCK_NAME/$ROWLOCK_TOKEN/$ROWLOCK_TERM\"")));
  CHECK(r.out == "a name/7/0123456789abcdef0123456789abcdef\n");
  CHECK(run(guarded({"printf", "<%s>", "[x,y]", "", "[]", "--", "a b"})).out == "<[x,y]><><[]><--><a b>");
}

TEST_CASE("guardian: input and output pass through, and nothing of ours is open in the command") {
  CHECK(run(guarded({"cat"}), {}, "some input").out == "some input");
  CHECK(run(guarded(shell("ls /proc/self/fd | wc -l"))).out == run(shell("ls /proc/self/fd | wc -l")).out);
}

TEST_CASE("guardian: a command that is not there or can't be executed") {
  auto const missing = run(guarded({"no-such-command-anywhere"}));
  CHECK(missing.status == 127);
  CHECK(missing.says(fmt::format("exec_error={}", ENOENT)));
  auto const no_program = run(guarded({"/etc/passwd"}));
  CHECK(no_program.status == 126);
  CHECK(no_program.says(fmt::format("exec_error={}", EACCES)));
}

TEST_CASE("guardian: what the command leaves running is ended, also if it left the session") {
  scratch_folder folder;
  auto const began = clock_type::now();
  auto const r = run(guarded(shell(daemon_that_writes(folder.file("f")) + "; sleep 0.3; exit 3")));
  auto const ended = wall_clock();
  CHECK(r.status == 3);
  CHECK(r.says("why=0"));
  CHECK_FALSE(r.says("ended=0"));
  CHECK(last_line(folder.file("f")) > 0);
  CHECK(last_line(folder.file("f")) < ended);
  CHECK(seconds_since(began) >= 0.7);  // it ignores SIGTERM, so the grace is used up
  CHECK(seconds_since(began) < 30);
}

TEST_CASE("guardian: a renewal that it did not read any more does not hide its report") {
  // Renewed each 2 ms, and a child that has to be killed, which takes some, in which it reads nothing.
  for (int i = 0; i < 30; ++i) {
    auto const r =
        run(guarded(shell("sh -c 'trap \"\" TERM; sleep 1' & exit 3"), 10, 9000, {"renew-each=2"}));
    CAPTURE(r.err);
    CHECK(r.status == 3);
  }
}

TEST_CASE("guardian: a descendant that ends at SIGTERM costs no grace") {
  auto const began = clock_type::now();
  CHECK(run(guarded(shell("(setsid sleep " + unique_sleep() + " &); exit 0"), 30'000, 100'000)).status == 0);
  CHECK(seconds_since(began) < 25);
}

TEST_CASE("guardian: K10, all are gone when rowlock was killed, within the grace") {
  scratch_folder folder;
  program p(guarded(
      shell(daemon_that_writes(folder.file("f")) + "; trap '' TERM; echo ready; while :; do sleep 1; done"),
      3000, 60'000));
  REQUIRE(p.prints("ready"));
  REQUIRE(within(60s, [&] { return last_line(folder.file("f")) > 0; }));
  p.signal(SIGKILL);
  auto const killed = wall_clock();
  REQUIRE(within(60s, [&] { return !any_process_with(folder.file("f")); }));
  CHECK(last_line(folder.file("f")) > killed + 0.2);  // the grace was given
  CHECK(last_line(folder.file("f")) < killed + 25);   // trust lasts for 34 s more at least
}

TEST_CASE("guardian: K6, all are gone before trust ends when rowlock is stopped") {
  scratch_folder folder;
  // Ended 2 s before trust is over, which are for a busy machine.
  program p(guarded(shell(daemon_that_writes(folder.file("f")) + "; echo ready; while :; do sleep 1; done"),
                    400, 9000, {}, 2000));
  REQUIRE(p.prints("ready"));
  REQUIRE(within(60s, [&] { return last_line(folder.file("f")) > 0; }));
  p.signal(SIGSTOP);
  auto const stopped = wall_clock();
  REQUIRE(within(60s, [&] { return !any_process_with(folder.file("f"), p.pid()); }));
  CHECK(last_line(folder.file("f")) > stopped + 1);  // not before it had to be
  CHECK(last_line(folder.file("f")) < stopped + 8.1);
  p.signal(SIGCONT);
  CHECK(p.wait() == 76);
  // All are gone; whether the guardian has had time to say so by now is another matter.
  auto const said = p.err();
  CAPTURE(said);
  bool const tells = said.find("why=1") != std::string::npos || said == "guarded: guardian late\n";
  CHECK(tells);
}

TEST_CASE("guardian: a short stop changes nothing") {
  program p(guarded(shell("echo ready; sleep 4; exit 5")));
  REQUIRE(p.prints("ready"));
  p.signal(SIGSTOP);
  CHECK_FALSE(within(1s, [&] { return !alive(p.pid()); }));
  p.signal(SIGCONT);
  CHECK(p.wait() == 5);
}

TEST_CASE("guardian: the whole ttl renewed several times over does not end the command") {
  CHECK(run(guarded(shell("sleep 14; exit 4"), 250, 4500)).status == 4);
}

TEST_CASE("guardian: a command that is stopped is ended all the same") {
  auto const mark = unique_sleep();
  program p(guarded(shell("sleep " + mark + " & echo ready; kill -STOP $$")));
  REQUIRE(p.prints("ready"));
  p.signal(SIGKILL);
  CHECK(within(60s, [&] { return !any_process_with(mark); }));
}

TEST_CASE("guardian: loss gives the command SIGTERM and no time if trust is over") {
  auto const began = clock_type::now();
  auto const r = run(guarded(shell("trap '' TERM; sleep 90; exit 0"), 30'000, 100'000, {"lose-after=300"}));
  CHECK(r.status == 76);
  CHECK(r.says("why=2"));
  CHECK(seconds_since(began) < 25);
}

TEST_CASE("guardian: a bomb of forks is ended") {
  auto const mark = unique_sleep();
  // Each generation lives for a moment only, most of the time as orphans; bounded by its depth.
  std::string const bomb =
      "f() { [ $1 -lt 8 ] || { sleep " + mark + "; return; }; f $(($1 + 1)) & f $(($1 + 1)) & }; f 0; ";
  program p(guarded(shell(bomb + "echo ready; wait; sleep 100")));
  REQUIRE(p.prints("ready"));
  p.signal(SIGKILL);
  CHECK(within(60s, [&] { return !any_process_with(mark); }));
}

TEST_CASE("guardian: if the guardian is killed, rowlock ends everything itself") {
  scratch_folder folder;
  program p(guarded(shell(daemon_that_writes(folder.file("f")) + "; echo ready; sleep 100")));
  REQUIRE(p.prints("ready"));
  REQUIRE(within(60s, [&] { return last_line(folder.file("f")) > 0; }));
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  ::kill(guardian, SIGKILL);
  CHECK(p.wait() == 70);
  CHECK_FALSE(any_process_with(folder.file("f")));
}

TEST_CASE("guardian: if the guardian is stopped while rowlock can't renew, rowlock ends everything itself") {
  scratch_folder folder;
  program p(guarded(shell(daemon_that_writes(folder.file("f")) + "; echo ready; sleep 100"), 400, 6000));
  REQUIRE(p.prints("ready"));
  REQUIRE(within(60s, [&] { return last_line(folder.file("f")) > 0; }));
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  stop_both(p, guardian);
  REQUIRE_FALSE(within(6s, [] { return false; }));  // until trust is over
  p.signal(SIGCONT);
  CHECK(p.wait() == 76);
  CHECK_FALSE(any_process_with(folder.file("f")));
  CHECK_FALSE(alive(guardian));
}

TEST_CASE("C18: a guardian that is stopped is told to go on, and so ends all when rowlock is killed") {
  auto const mark = unique_sleep();
  program p(guarded(shell("echo ready; sleep " + mark)));
  REQUIRE(p.prints("ready"));
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  for (int i = 0; i < 3; ++i) {
    ::kill(guardian, SIGSTOP);
    CHECK(within(60s, [&] { return !is_stopped(guardian); }));
  }
  // Both are stopped, and rowlock alone is told to go on.
  stop_both(p, guardian);
  p.signal(SIGCONT);
  CHECK(within(60s, [&] { return !is_stopped(guardian); }));
  p.signal(SIGKILL);
  CHECK(within(60s, [&] { return !any_process_with(mark); }));
  ::kill(guardian, SIGCONT);  // whatever has failed above
}

TEST_CASE("K6: a command whose time is over before it has begun does not begin") {
  for (bool const both : {false, true}) {
    CAPTURE(both);
    scratch_folder folder;
    program p(guarded({"touch", folder.file("ran")}, 100, 1500, {"stop-before-start", "stop-after-start"}));
    REQUIRE(within(60s, [&] { return is_stopped(p.pid()); }));
    auto const over = clock_type::now() + 1500ms;
    auto const guardian = guardian_of(p.pid());
    REQUIRE(guardian > 0);
    if (both) {
      ::kill(guardian, SIGSTOP);
      REQUIRE(within(60s, [&] { return is_stopped(guardian); }));
      p.signal(SIGCONT);
      // It has told the guardian to start the command, and is stopped again.
      REQUIRE(within(60s, [&] { return is_stopped(p.pid()); }));
    }
    REQUIRE(within(60s, [&] { return clock_type::now() > over; }));
    if (both) {
      ::kill(guardian, SIGCONT);
      REQUIRE(within(60s, [&] { return !alive(guardian); }));
    } else {
      p.signal(SIGCONT);
      REQUIRE(within(60s, [&] { return is_stopped(p.pid()); }));
    }
    p.signal(SIGCONT);
    CHECK(p.wait() == 76);
    CHECK(p.err().find("why=1 ") != std::string::npos);
    CHECK(p.err().find("not_begun=1") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder.file("ran")));
  }
}

TEST_CASE("K6: a command is not begun if the lock was lost before") {
  scratch_folder folder;
  auto const r = run(guarded({"touch", folder.file("ran")}, 400, 3000, {"lose-before-start"}));
  CHECK(r.status == 76);
  CHECK(r.says("why=2 "));
  CHECK(r.says("not_begun=1"));
  CHECK_FALSE(std::filesystem::exists(folder.file("ran")));
}

TEST_CASE("K6: just before it is executed the command looks at the clock once more") {
  using namespace rowlock::tool;
  scratch_folder folder;
  for (bool const late : {false, true}) {
    pid_t const pid = ::fork();  // signal_setup blocks signals for good
    REQUIRE(pid >= 0);
    if (pid == 0) {
      signal_setup const signals;
      auto const now = rowlock::boot_clock::now();
      auto const c = start_command({"touch", folder.file(late ? "late" : "ran")}, order{},
                                   late ? now : now + 1min, signals);
      int said = 0;
      bool const failed = ::read(c.exec_error.get(), &said, sizeof said) == sizeof said;
      ::waitpid(c.pid, nullptr, 0);
      ::_exit(failed == late && (!late || said == too_late_to_begin) ? 0 : 1);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    CHECK(status == 0);
  }
  CHECK(std::filesystem::exists(folder.file("ran")));
  CHECK_FALSE(std::filesystem::exists(folder.file("late")));
}

TEST_CASE("C18: orders that a stopped guardian finds together: a renewal makes the start come in time") {
  scratch_folder folder;
  program p(guarded({"touch", folder.file("ran")}, 100, 1500,
                    {"stop-before-start", "stop-after-start", "renew-each=100"}));
  REQUIRE(within(60s, [&] { return is_stopped(p.pid()); }));
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  ::kill(guardian, SIGSTOP);
  REQUIRE(within(60s, [&] { return is_stopped(guardian); }));
  p.signal(SIGCONT);
  REQUIRE(within(60s, [&] { return is_stopped(p.pid()); }));
  p.signal(SIGCONT);  // it renews, and has the guardian go on
  CHECK(p.wait() == 0);
  CHECK(std::filesystem::exists(folder.file("ran")));
}

TEST_CASE("C18: a guardian that is stopped does not keep rowlock from ending") {
  on_sqlite const place;
  holder h(place, {"n"});
  program waits(place.command({"run", "--wait", "3s", "n", "--", "true"}), place.variables());
  auto const guardian = guardian_of(waits.pid());
  REQUIRE(guardian > 0);
  ::kill(guardian, SIGSTOP);
  CHECK(waits.wait() == 75);
  CHECK_FALSE(alive(guardian));
}

TEST_CASE("guardian: a signal from a process that was a child of rowlock's before the command reaches it") {
  scratch_folder folder;
  auto const command = guarded(shell(goes_on_for_a_second_after("USR1")));
  words all{"sh", "-c",
            "(until [ -e " + folder.file("go") + " ]; do sleep 0.02; done; kill -USR1 $$) & exec \"$@\"",
            "sh"};
  all.insert(all.end(), command.begin(), command.end());
  program p(all);
  REQUIRE(p.prints("ready"));
  std::ofstream(folder.file("go")) << "";
  CHECK(p.wait() == 9);
  CHECK(p.out() == "ready\ngot\n");
}

TEST_CASE("guardian: as the first process of a pid namespace it doubles no signal") {
  words all{"unshare"};
  if (::geteuid() != 0) all.insert(all.end(), {"--user", "--map-root-user"});
  all.insert(all.end(), {"--pid", "--fork", "--mount-proc", "setsid"});
  auto const own =
      guarded(shell("trap 'echo got' TERM; for i in 1 2 3 4 5 6; do kill -TERM 0; sleep 0.1; done; exit 9"));
  all.insert(all.end(), own.begin(), own.end());
  auto const r = run(all);
  CHECK(r.status == 9);
  CHECK(r.out == "got\ngot\ngot\ngot\ngot\ngot\n");
}

TEST_CASE("guardian: signals sent to rowlock reach the command, once") {
  for (int const signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    CAPTURE(signal);
    program p(guarded(shell(goes_on_for_a_second_after("TERM INT HUP QUIT USR1 USR2"))));
    REQUIRE(p.prints("ready"));
    p.signal(signal);
    CHECK(p.wait() == 9);
    CHECK(p.out() == "ready\ngot\n");
  }
}

TEST_CASE("guardian: what the command's own processes send to their group is not doubled") {
  auto const r = run(guarded(shell("trap 'echo got' TERM; kill -TERM 0; sleep 0.5; exit 9")));
  CHECK(r.status == 9);
  CHECK(r.out == "got\n");
}

TEST_CASE("guardian: a signal that the command dies of") {
  program p(guarded(shell("echo ready; sleep 100")));
  REQUIRE(p.prints("ready"));
  p.signal(SIGTERM);
  CHECK(p.wait() == 128 + SIGTERM);
}

TEST_CASE(
    "guardian: nohup and an ignored SIGCHLD are inherited by the command, and its status is known all the "
    "same") {
  auto const ignored = [](words command) {
    auto const all = guarded({"grep", "SigIgn", "/proc/self/status"});
    command.insert(command.end(), all.begin(), all.end());
    return run(command);
  };
  CHECK(ignored({"env", "--default-signal"}).out.find("0000000000000000") != std::string::npos);
  auto const set = ignored({"env", "--default-signal", "--ignore-signal=HUP", "--ignore-signal=CHLD"});
  CHECK(set.status == 0);
  CHECK(set.out.find("0000000000010001") != std::string::npos);
}

TEST_CASE("C16: a stopped process of the caller's group does not end the caller") {
  auto const caller = [](words guarded_command) {
    words all{"setsid",
              "--wait",
              "sh",
              "-c",
              "sleep 100 & until grep -q ' T ' /proc/$!/stat; do kill -STOP $!; done; "
              "\"$@\"; echo status $?; kill -KILL $!",
              "sh"};
    all.insert(all.end(), guarded_command.begin(), guarded_command.end());
    return run(all);
  };
  for (auto const* script :
       {"exit 3",                                                       // the command ends
        "sleep 0.1 & exit 3",                                           // and leaves something behind
        "sh -c 'kill -STOP $$' & sleep 0.2; kill -KILL $!; exit 3"}) {  // something of its own is stopped
    CAPTURE(script);
    CHECK(caller(guarded(shell(script))).out == "status 3\n");
    CHECK(caller({rowlock_program, "run", "n", "--", "sh", "-c", script}).out == "status 3\n");
  }
  // The lock is lost, or rowlock killed, while something is stopped.
  CHECK(caller(guarded(shell("sleep 100"), 400, 3000, {"lose-after=200"})).out == "status 76\n");
  CHECK(caller(guarded(shell("kill -KILL $(cut -d' ' -f4 /proc/$PPID/stat); sleep 100"))).out ==
        "status 137\n");
}

TEST_CASE("C16: the guardian has a session of its own, without a terminal") {
  program p(guarded(shell("echo ready; sleep 100")));
  REQUIRE(p.prints("ready"));
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  REQUIRE(within(60s, [&] { return ::getsid(guardian) == guardian; }));
  p.signal(SIGTERM);
  CHECK(p.wait() == 128 + SIGTERM);
}

TEST_CASE(
    "C18: what kills all that looks like the command line of rowlock run leaves the guardian, which ends "
    "it all") {
  scratch_folder folder;
  auto const lock = unique_identifier();
  program p({rowlock_program, "run", lock, "--", "sh", "-c",
             daemon_that_writes(folder.file("f")) + "; until [ -s " + folder.file("f") +
                 " ]; do sleep 0.01; done; echo ready; sleep 100"});
  REQUIRE(p.prints("ready"));
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  CHECK(read_file(fmt::format("/proc/{}/cmdline", guardian)).c_str() == "rowlock-guardian " + lock);
  auto const killed = run({"pkill", "-KILL", "-f", "--", "run " + lock});
  CHECK(killed.status == 0);
  CHECK(p.wait() == 128 + SIGKILL);
  CHECK(within(60s, [&] { return !any_process_with(folder.file("f")); }));
  CHECK(within(60s, [&] { return !alive(guardian); }));
}

TEST_CASE("C18: if the guardian is killed while rowlock can do nothing, the command itself goes with it") {
  program p(guarded(shell("echo $$; exec sleep 100")));
  REQUIRE(within(60s, [&] { return p.out().find('\n') != std::string::npos; }));
  pid_t const command = std::atoi(p.out().c_str());
  auto const guardian = guardian_of(p.pid());
  REQUIRE(guardian > 0);
  p.signal(SIGSTOP);
  ::kill(guardian, SIGKILL);
  CHECK(within(60s, [&] { return !alive(command); }));
  p.signal(SIGCONT);
  CHECK(p.wait() == 70);
}
