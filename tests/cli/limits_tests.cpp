// What happens where the machine gives too little, and where what is printed can't be written.

#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "cli/place.hpp"

using namespace rowlock::test;

namespace {

/// `script` with the command's words as "$@"; not of sh, which has no `ulimit -u`.
words in_shell(std::string const& script, words const& command) {
  words all{"bash", "-c", script, "bash"};
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

/// With namespaces of its own.
words apart(words const& options, words const& command) {
  words all{"unshare"};
  if (::geteuid() != 0) all.insert(all.end(), {"--user", "--map-root-user"});
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

/// Has a command run as a user who has no other process and may go nowhere: with a copy of the program.
class stranger {
 public:
  stranger() {
    std::filesystem::copy_file(rowlock_program, folder_.file("rowlock"));
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  }
  words command(std::string const& script, words command) const {
    command.front() = folder_.file("rowlock");
    auto const all = in_shell(script, command);
    if (::geteuid() != 0) return all;
    words as_other{"setpriv", fmt::format("--reuid={}", 200'000 + ::getpid()), "--clear-groups"};
    as_other.insert(as_other.end(), all.begin(), all.end());
    return as_other;
  }

 private:
  scratch_folder folder_;
};

words const run_true{"run", "n", "--", "true"};

}  // namespace

CLI_CASE("C29: where too few files may be open, it works or says which limit it is") {
  Place const p;
  int refused = 0;
  for (int const files : {4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 32, 64}) {
    CAPTURE(files);
    for (auto const& args : {run_true, words{"list"}}) {
      auto const r =
          run(in_shell(fmt::format("ulimit -n {}; exec \"$@\"", files), p.command(args)), p.variables());
      if (r.status == 0) continue;
      ++refused;
      CAPTURE(r.err);
      CHECK(r.status == 71);
      CHECK(r.says(fmt::format("`ulimit -n` ({} here)", files)));
    }
  }
  CHECK(refused > 0);
  CHECK(refused < 32);
}

SERVER_CASE(
    "C29: where too few processes may be started, it works or says which limit it is, and holds nothing") {
  Place const p;
  stranger const somebody;
  int refused = 0;
  for (int const processes : {1, 2, 3, 4, 5, 6, 7, 8, 10, 12}) {
    CAPTURE(processes);
    auto const r =
        run(somebody.command(fmt::format("ulimit -u {}; exec \"$@\"", processes), p.command(run_true)),
            p.variables());
    CHECK(p.rowlock({"run", "--no-wait", "n", "--", "true"}).status == 0);
    if (r.status == 0) continue;
    ++refused;
    CAPTURE(r.err);
    CHECK(r.status == 71);
    CHECK(r.says(fmt::format("`ulimit -u` ({} here)", processes)));
  }
  CHECK(refused > 0);
}

TEST_CASE("C29: where there is too little memory for a thread, `ulimit -v` is named, as that counts it") {
  on_sqlite const p;
  int refused = 0;
  for (int kilobytes = 30'000; kilobytes <= 200'000; kilobytes += 10'000) {
    auto const r = run(in_shell(fmt::format("ulimit -v {}; exec \"$@\"", kilobytes), p.command(run_true)),
                       p.variables());
    if (r.status != 71) continue;  // enough of it, or too little even to begin
    ++refused;
    CAPTURE(r.err);
    CHECK(r.says(fmt::format("`ulimit -v` ({} here)", kilobytes)));
  }
  CHECK(refused > 0);
}

TEST_CASE(
    "C29: where an SQLite file may not get longer, `ulimit -f` is named at once, and no lock is left "
    "unsaid") {
  on_sqlite const p;
  // Keeps what is written in the WAL, which so gets longer.
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open_v2(p.file().c_str(), &opened, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  std::unique_ptr<sqlite3, decltype(&sqlite3_close)> const reader(opened, &sqlite3_close);
  REQUIRE(sqlite3_exec(opened, "BEGIN; SELECT count(*) FROM rowlock_locks", nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  int refused = 0;
  int kept = 0;
  for (int kilobytes = 4; kilobytes <= 96; kilobytes += 4) {
    CAPTURE(kilobytes);
    auto const name = fmt::format("n{}", kilobytes);
    for (auto const& args : {words{"run", name, "--", "true"}, words{"list"}, words{"doctor"}}) {
      auto const start = std::chrono::steady_clock::now();
      auto const r =
          run(in_shell(fmt::format("ulimit -f {}; \"$@\" 2>&1 | cat >&2; exit ${{PIPESTATUS[0]}}", kilobytes),
                       p.command(args)),
              p.variables());
      CAPTURE(r.err);
      CHECK(seconds_since(start) < 40);
      if (r.status == 0) {
        if (args.front() != "run" || p.rowlock({"run", "--no-wait", name, "--", "true"}).status == 0)
          continue;
        ++kept;
        CHECK(r.says(fmt::format("'{}' may not have been given back: ", name)));
        CHECK(r.says("`ulimit -f`"));
        continue;
      }
      ++refused;
      CHECK(r.status == (args.front() == "doctor" ? 1 : 78));
      CHECK(r.says(fmt::format("`ulimit -f` ({} bytes here)", kilobytes * 1024)));
    }
  }
  CHECK(refused > 0);
  MESSAGE(kept << " were kept, and said to be");
}

// (With 24 KiB and less it may end while its libraries are loaded.)
// come before ours.
CLI_CASE("C29: where the stack may not grow, `ulimit -s` is named, and nothing crashes") {
  Place const p;
  for (int const kilobytes : {32, 48, 64, 128, 255, 256}) {
    CAPTURE(kilobytes);
    for (auto const& args : {run_true, words{"list"}, words{"doctor"}}) {
      auto const r =
          run(in_shell(fmt::format("ulimit -s {}; exec \"$@\"", kilobytes), p.command(args)), p.variables());
      CAPTURE(r.err);
      if (kilobytes < 256) {
        CHECK(r.status == 71);
        CHECK(r.says(fmt::format("`ulimit -s` ({} here)", kilobytes)));
      } else {
        CHECK((r.status == 0 || args.front() == "doctor"));
        CHECK(r.status < 2);
      }
    }
  }
}

TEST_CASE("C29: without /proc, or with that of another pid namespace, it says so and runs nothing") {
  on_sqlite const p;
  scratch_folder const folder;
  auto const command = p.command({"run", "n", "--", "touch", folder.file("ran")});
  auto const none =
      run(apart({"--mount"}, in_shell("mount -t tmpfs none /proc && exec \"$@\"", command)), p.variables());
  CHECK(none.status == 71);
  CHECK(none.says("there is none here"));
  auto const foreign = run(apart({"--pid", "--fork"}, command), p.variables());
  CHECK(foreign.status == 71);
  CHECK(foreign.says("belongs to another pid namespace"));
  for (auto const& r : {none, foreign}) CHECK(r.says("mount -t proc proc /proc"));
  CHECK_FALSE(std::filesystem::exists(folder.file("ran")));
  CHECK(run(apart({"--pid", "--fork", "--mount-proc"}, command), p.variables()).status == 0);
  CHECK(std::filesystem::exists(folder.file("ran")));
}

TEST_CASE(
    "C29: /proc that vanishes under it: the command is ended, what can't be seen is told, and it ends") {
  auto const mark = fmt::format("81{}", ::getpid());
  program p(apart({"--mount"},
                  {guarded_program, "30000", "300", "60", "lose-after=8000", "--", "sh", "-c",
                   "(setsid sleep " + mark + " &); mount -t tmpfs none /proc; echo ready; sleep 100"}));
  REQUIRE(p.prints("ready"));
  CHECK(p.wait() == 76);
  CHECK(p.err().find("left=1") != std::string::npos);
  run({"pkill", "-KILL", "-f", "--", "sleep " + mark});
}

TEST_CASE(
    "C29: a file that may not get longer is an error that is told, and no end of rowlock's; the command's it "
    "may be") {
  on_sqlite const p;
  scratch_folder const folder;
  auto const file = folder.file("out");
  auto const r =
      run(in_shell("ulimit -f 1 && exec \"$@\" >'" + file + "'", p.command({"--help"})), p.variables());
  CHECK(r.status == 74);
  CHECK(r.says("the output could not be written: File too large"));
  CHECK(p.rowlock({"run", "n", "--", "sh", "-c", "kill -s XFSZ $$"}).status == 128 + SIGXFSZ);
}

TEST_CASE("C28: output that can't be written is told, and no command ends with 0 then") {
  on_sqlite const p;
  for (words const& args : {words{"--help"},
                            {"run", "--help"},
                            {"list"},
                            {"list", "--json"},
                            {"list", "--reaper"},
                            {"list", "--metrics"},
                            {"version"},
                            {"version", "--json"},
                            {"reap"},
                            {"reap", "--json"},
                            {"reap", "--metrics", "-"},
                            {"release", "--force", "n"},
                            {"release", "--force", "n", "--json"},
                            {"doctor"},
                            {"doctor", "--json"},
                            {"migrate", "status"},
                            {"migrate", "up"},
                            {"migrate", "validate"},
                            {"migrate", "repair"},
                            {"migrate", "sql"}}) {
    CAPTURE(fmt::format("{}", args.front()));
    auto const full = run(in_shell("exec \"$@\" >/dev/full", p.command(args)), p.variables());
    CHECK(full.status == 74);
    CHECK(full.says("rowlock: the output could not be written: No space left on device"));
    auto const closed = run(in_shell("exec \"$@\" >&-", p.command(args)), p.variables());
    CHECK(closed.status == 74);
    CHECK(closed.says("rowlock: the output could not be written: Bad file descriptor"));
  }
  // What else went wrong is more, and who prints nothing has no trouble.
  auto const own = p.command({"run", "n", "--", "sh", "-c", "exit 3"});
  for (std::string const where : {"/dev/full", "&-"}) {
    CHECK(run(in_shell("exec \"$@\" >" + where, p.command({"reap", "--quiet"})), p.variables()).status == 0);
    CHECK(run(in_shell("exec \"$@\" >" + where, own), p.variables()).status == 3);
  }
}
