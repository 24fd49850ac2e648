// rowlock-torture as a program, on somebody's own database: what it refuses, what it leaves, and what it
// says.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "history.hpp"
#include "sql_session.hpp"
#include "support/child_process.hpp"
#include "support/eventually.hpp"
#include "support/source_path.hpp"
#include "support/support.hpp"
#include "torture/own_database.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

std::string text_in(std::string const& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A run on a file of its own, unless told otherwise.
class place {
 public:
  place() { std::filesystem::create_directory(folder_.file("tmp")); }

  test::child_process start(std::string const& options, std::string const& first = {}) const {
    return test::child_process({"/bin/sh", "-c",
                                first + "TMPDIR=" + folder_.file("tmp") + " ROWLOCK_DB='" + db + "' exec " +
                                    ROWLOCK_TORTURE_PROGRAM + " " + options + " 2>&1"});
  }
  std::pair<int, std::string> run(std::string const& options, std::string const& first = {}) const {
    auto p = start(options, first);
    auto const status = p.finish();
    return {status, p.output()};
  }
  /// Waits until somebody has had a lock.
  void wait_for_locks() const {
    REQUIRE(test::eventually([&] {
      auto const all = temporary();
      if (all.empty()) return false;
      auto const records = read_history(all.front());
      return std::any_of(records.begin(), records.end(),
                         [](record const& r) { return r.what == happening::gives_back; });
    }));
  }
  std::vector<std::filesystem::path> temporary() const {
    std::vector<std::filesystem::path> all;
    for (auto const& each : std::filesystem::directory_iterator(folder_.file("tmp")))
      all.push_back(each.path());
    return all;
  }
  int tables() const {
    int n = 0;
    *connect(db) << "SELECT count(*) FROM sqlite_master WHERE name LIKE 'torture%'", soci::into(n);
    return n;
  }
  std::string file(std::string const& name) const { return folder_.file(name); }

 private:
  test::scratch_folder folder_;

 public:
  std::string db = "sqlite:" + folder_.file("locks.db");
};

std::string last_line(std::string const& text) {
  auto const end = text.find_last_not_of('\n');
  auto const begin = text.rfind('\n', end);
  return text.substr(begin + 1, end - begin);
}

}  // namespace

TEST_CASE("program: a signal ends a run in order, and nothing of it is left") {
  for (int const signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    place const here;
    auto p = here.start("--duration 10m --workload guarded_set --nemesis stop,operator");
    here.wait_for_locks();
    CHECK(here.tables() > 0);
    p.signal(signal);
    CHECK(p.finish() == 128 + signal);
    CHECK(p.output().find("nothing was judged") != std::string::npos);
    CHECK(here.tables() == 0);
    CHECK(here.temporary().empty());
  }
}

TEST_CASE("program: the end of its terminal, or of who reads its output, leaves nothing behind either") {
  place const here;
  SUBCASE("a pipe") {
    auto p = test::child_process({"/bin/sh", "-c",
                                  "(TMPDIR=" + here.file("tmp") + " " + ROWLOCK_TORTURE_PROGRAM + " --db " +
                                      here.db + " --duration 1s --nemesis none 2>&1; echo $? >" +
                                      here.file("status") + ") | true; cat " + here.file("status")});
    // The shell may wait for the last of the pipe alone.
    REQUIRE(test::eventually([&] { return !text_in(here.file("status")).empty(); }));
    p.finish();
    CHECK(text_in(here.file("status")) == "2\n");
  }
  SUBCASE("a terminal") {
    int const terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(terminal >= 0);
    REQUIRE(::grantpt(terminal) == 0);
    REQUIRE(::unlockpt(terminal) == 0);
    auto const name = std::string(::ptsname(terminal));
    auto p =
        test::child_process({"/bin/sh", "-c",
                             "TMPDIR=" + here.file("tmp") + " exec setsid --ctty " + ROWLOCK_TORTURE_PROGRAM +
                                 " --db " + here.db + " --duration 10m <" + name + " 2>" + name});
    here.wait_for_locks();
    ::close(terminal);
    CHECK(p.finish() == 128 + SIGHUP);
  }
  CHECK(here.tables() == 0);
  CHECK(here.temporary().empty());
}

TEST_CASE("program: a signal in the middle of a fault: what is broken is mended first") {
  place const here;
  auto p = here.start("--duration 10m --ttl 10s --nemesis server-stop --server 'echo >>" +
                      here.file("orders") + "'");
  REQUIRE(test::eventually([&] { return text_in(here.file("orders")) == "pause\n"; }));
  p.signal(SIGTERM);
  CHECK(p.finish() == 128 + SIGTERM);
  CHECK(text_in(here.file("orders")) == "pause\nresume\n");
  CHECK(here.tables() == 0);
}

TEST_CASE(
    "program: a second run on the same tables is refused, and one after a run that was killed takes them "
    "over") {
  place const here;
  auto first = here.start("--duration 10m --nemesis none");
  here.wait_for_locks();
  auto const [status, said] = here.run("--duration 1s --nemesis none");
  CAPTURE(said);
  CHECK(status == 2);
  CHECK(said.find("another rowlock-torture is at work on the tables torture_*") != said.npos);
  CHECK(here.tables() > 0);
  first.kill();
  first.finish();
  auto const [later, says] = here.run("--duration 1s --nemesis none");
  CAPTURE(says);
  CHECK(later == 0);
  CHECK(here.tables() == 0);
}

TEST_CASE(
    "program: what fills the disk has no name that leads elsewhere, and goes with a program that is killed") {
  place const here;
  auto const disk = std::filesystem::path(here.file("disk"));
  std::filesystem::create_directory(disk);
  std::ofstream(here.file("precious")) << "precious";
  std::filesystem::create_symlink(here.file("precious"), disk / "filled-by-rowlock-torture");
  // A megabyte is as much as any file may have: such a disk is full as well.
  auto p = here.start("--duration 10m --nemesis full-disk --small-disk " + disk.string(),
                      "trap '' XFSZ; ulimit -f 2048; ");
  REQUIRE(test::eventually([&] {
    auto const all = here.temporary();
    if (all.empty()) return false;
    auto const records = read_history(all.front());
    return std::any_of(records.begin(), records.end(),
                       [](record const& r) { return r.what == happening::fault; });
  }));
  p.kill();
  p.finish();
  CHECK(text_in(here.file("precious")) == "precious");
  CHECK(std::distance(std::filesystem::directory_iterator(disk), {}) == 1);
}

TEST_CASE("program: tables torture_* with somebody else's locks are not used, and not dropped") {
  place const here;
  manager_options mo;
  mo.table_prefix = "torture_";
  migrator(source_from_url(here.db), {.table_prefix = "torture_"}).up();
  lock_manager m(source_from_url(here.db), mo);
  CHECK(m.make_mutex("nightly").try_acquire().value().release() == release_result::released);
  auto const before = here.tables();
  auto const [status, said] = here.run("--duration 1s --nemesis none");
  CHECK(status == 2);
  CHECK(said.find("none of rowlock-torture's, 'nightly'") != said.npos);
  CHECK(here.tables() == before);
}

TEST_CASE("program: where it can't begin, nothing is left either") {
  place const here;
  auto const [status, said] = here.run("--duration 1s", "ulimit -n 10; ");
  CAPTURE(said);
  CHECK(status == 2);
  CHECK(here.tables() == 0);
}

TEST_CASE("program: the last line is the verdict, and says how much was seen") {
  place const here;
  auto const [status, said] = here.run("--duration 2s --nemesis kill");
  CAPTURE(said);
  CHECK(status == 0);
  CHECK(last_line(said).find("no promise was broken in ") != said.npos);
  CHECK(last_line(said).find(" hand-overs and ") != said.npos);
}

TEST_CASE("program: asynchronous clients are judged as others are") {
  place const here;
  for (auto const* const workload : {"mutex", "shared", "semaphore", "memory_set"}) {
    auto const [status, said] =
        here.run(std::string("--duration 2s --nemesis kill,stop --client async --workload ") + workload);
    CAPTURE(said);
    CHECK(status == 0);
    CHECK(last_line(said).find("no promise was broken in ") != said.npos);
  }
}

TEST_CASE("program: of too little nothing is said to be kept") {
  place const here;
  auto const [status, said] = here.run("--duration 100ms --nemesis none --processes 1 --threads 1");
  CAPTURE(said);
  CHECK(status == 2);
  CHECK(last_line(said).find("it could not be found out, because it was too little") != said.npos);
}

TEST_CASE("program: a history that can't be written is said in a line, and is no broken promise") {
  place here;
  here.db = test::postgresql_conninfo();
  auto const [status, said] = here.run("--duration 1m --nemesis none", "trap '' XFSZ; ulimit -f 8; ");
  CAPTURE(said);
  CHECK(status == 2);
  CHECK(said.find(" ended: the history: File too large") != said.npos);
  CHECK(said.find("terminate called") == said.npos);
  CHECK(here.temporary().empty());
}

TEST_CASE("program: what contradicts itself, or could not work, is refused before anything is made") {
  place const here;
  for (auto const& [options, why] : std::vector<std::pair<std::string, std::string>>{
           {"--workload semaphore --strategy unique_insert", "--strategy is for mutexes"},
           {"--workload election --takeover observed", "--takeover is for mutexes"},
           {"--member sqlite:other.db", "--member is for --workload quorum"},
           {"--workload quorum --member sqlite:other.db", "needs two --member"},
           {"--workload nothing", "there is no nothing; there are: "},
           {"--client async --workload all_at_once", "has no asynchronous calls"},
           {"--client async --workload recursive_mutex", "has no asynchronous calls"},
           {"--client nothing", "there is no nothing; there are: async, blocking"},
           {"--nemesis nothing", "there is no nothing; there are: kill, "},
           {"--nemesis none,kill", "none stands alone"},
           {"--nemesis cut", "needs --wire"},
           {"--wire", "--db must name the host as 127.0.0.1"},
           {"--ttl 10ms", "10ms is out of range: 100 ms to 1200 s"},
           {"--ttl 1h", "1h is out of range: 100 ms to 1200 s"},
           {"--duration 0s", "0s is out of range"},
           {"--duration soon", "'soon' is no duration"},
           {"--db nonsense", "does not know this kind of database URL"},
           {"--db mysql://a:secret@127.0.0.1/b", "--db has a password in it"},
           {"--db=mysql://a@127.0.0.1/b?ssl-mode=require --workload set",
            "can't be told what is behind the ?"},
       }) {
    CAPTURE(options);
    auto const [status, said] = here.run(options);
    CAPTURE(said);
    CHECK(status == 64);
    CHECK(said.find(why) != said.npos);
    CHECK(said.find("secret") == said.npos);
  }
  CHECK(!std::filesystem::exists(here.file("locks.db")));
}

TEST_CASE("program: whoever may not make a role is told so, and no password is shown") {
  place here;
  test::own_database const d(test::postgresql_conninfo());
  auto const role = test::unique_identifier();
  auto const admin = connect(d.address());
  *admin << "CREATE ROLE " << role << " LOGIN PASSWORD 'theirs'";
  *admin << "GRANT CREATE, USAGE ON SCHEMA public TO " << role;
  here.db = d.address() + " user=" + role + " password=theirs";
  auto const [status, said] = here.run("--duration 1s --client-role");
  CAPTURE(said);
  CHECK(status == 2);
  CHECK(said.find("--client-role: torture_client can't be made: ") != said.npos);
  CHECK(said.find("PASSWORD") == said.npos);
  *admin << "DROP OWNED BY " << role;
  *admin << "DROP ROLE " << role;
}

TEST_CASE("program: tools/torture says what is wrong with its command line, and that is no broken promise") {
  for (auto const& [options, why] : std::vector<std::pair<std::string, std::string>>{
           {"--db", "--db needs a value"},
           {"--workload ''", "--workload needs a value"},
           {"--db nothing", "there is no nothing; there are: postgresql, "},
           {"--db sqlite --db sqlite", "--db sqlite is there twice"},
           {"--workload nothing", "there is no nothing; there are: force "},
           {"--client nothing", "there is no nothing; there are: blocking async"},
           {"--client async --workload election", "--workload election has no asynchronous calls"},
           {"--seed x", "'x' is no number"},
           {"--db galera --small-disk", "not for a cluster"},
           {"--nothing", "there is no option --nothing"},
           {"-- --json", "--json is for rowlock-torture alone"},
       }) {
    CAPTURE(options);
    test::child_process p(
        {"/bin/sh", "-c", "exec " + test::source_path("tools/torture") + " " + options + " 2>&1"});
    CHECK(p.finish() == 64);
    CHECK(p.output().find(why) != std::string::npos);
  }
}

TEST_CASE("program: where the picture can't be written, that is said before the run") {
  place const here;
  auto const [status, said] = here.run("--duration 1s --picture " + here.file("nowhere/it.svg"));
  CHECK(status == 2);
  CHECK(said.find("--picture: can't write to ") != said.npos);
  CHECK(!std::filesystem::exists(here.file("locks.db")));
}

}  // namespace rowlock::torture
