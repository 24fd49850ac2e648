// rowlock-bench on SQLite alone, for a moment: tools/bench is for figures.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/database_server.hpp"
#include "support/eventually.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

/// A database file in a folder, and the file that says where it is.
struct bench_place {
  bench_place() {
    std::ofstream(places()) << "sqlite=" << folder.file("bench.db") << "\n#sqlite=in a file\n";
  }
  std::string places() const { return folder.file("places"); }
  child_process start(std::vector<std::string> const& more) const {
    std::vector<std::string> all{ROWLOCK_BENCH_PROGRAM, "--places", places(), "--anyway"};
    all.insert(all.end(), more.begin(), more.end());
    return child_process(all);
  }
  scratch_folder folder;
};

/// Processes that have this in their command line.
int processes_with(std::string const& text) {
  int count = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "cmdline");
    std::string const line{std::istreambuf_iterator<char>(in), {}};
    count += line.find(text) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST_CASE("bench: figures of each round, the shares and the open verdicts come as JSON <sqlite>") {
  bench_place const place;
  auto bench =
      place.start({"--json", "--rounds", "2", "--milliseconds", "500", "--only", "cycle/lease-sqlite-full",
                   "--only", "handover-2/lease-sqlite", "--only", "cycle/redis-durable"});
  auto const status = bench.finish();
  INFO(bench.output());
  REQUIRE(status == 0);
  auto const all = nlohmann::json::parse(bench.output());
  CHECK(all.at("not_judged") == "--anyway");
  CHECK(all.at("settings").at("sqlite") == "in a file");
  auto const& scenarios = all.at("scenarios");
  REQUIRE(scenarios.size() == 2);

  auto const& cycle = scenarios[0].at("systems")[0];
  CHECK(cycle.at("id") == "lease-sqlite-full");
  REQUIRE(cycle.at("rounds").size() == 2);
  for (auto const& round : cycle.at("rounds")) CHECK(round.at("per_second") > 0);
  // It says what it could not measure, and why.
  auto const& redis = scenarios[0].at("systems")[1];
  CHECK(redis.at("trouble") == "there is no redis-durable in this run");

  for (auto const& round : scenarios[1].at("systems")[0].at("rounds")) {
    auto const& shares = round.at("cycles_of_each_process");
    REQUIRE(shares.size() == 2);
    CHECK(shares[0].get<int>() + shares[1].get<int>() > 0);
  }
  REQUIRE(all.at("verdicts").size() == 1);
  CHECK(all.at("verdicts")[0].at("verdict") == "open");
}

TEST_CASE("bench: what is measured beside an old snapshot is drawn as lines <postgresql>") {
  database_server const server(server_kind::postgresql);
  scratch_folder const folder;
  std::ofstream(folder.file("places")) << "postgresql=" << server.address() << '\n';
  // Keeps what it is to draw.
  std::ofstream(folder.file("gnuplot")) << "#!/bin/sh\ncat >>" << folder.file("drawn") << '\n';
  std::filesystem::permissions(folder.file("gnuplot"), std::filesystem::perms::owner_all);
  child_process bench({"/usr/bin/env", "PATH=" + folder.file("") + ":/usr/bin:/bin", ROWLOCK_BENCH_PROGRAM,
                       "--places", folder.file("places"), "--anyway", "--rounds", "1", "--milliseconds",
                       "100", "--plots", folder.file("plots"), "--only", "growth/old-snapshot-200", "--only",
                       "growth/old-snapshot-row-200"});
  auto const status = bench.finish();
  INFO(bench.output());
  REQUIRE(status == 0);
  std::ifstream in(folder.file("drawn"));
  std::string const drawn{std::istreambuf_iterator<char>(in), {}};
  INFO(drawn);
  CHECK(drawn.find("/old-snapshot.svg'") != drawn.npos);
  CHECK(drawn.find("$d0 << EOD\n200 ") != drawn.npos);
  CHECK(drawn.find("$d1 << EOD\n200 ") != drawn.npos);
  CHECK(drawn.find("title 'lease', $d1") != drawn.npos);
  CHECK(drawn.find("title 'UPDATE'") != drawn.npos);
  // The bars of the other systems have none.
  CHECK(drawn.find("/growth.svg'") == drawn.npos);
}

TEST_CASE("bench: its processes end with it, however it ends <sqlite>") {
  bench_place const place;
  auto bench = place.start({"--milliseconds", "600000", "--only", "handover-8/lease-sqlite"});
  // Itself, and the eight that compete.
  REQUIRE(eventually([&] { return processes_with(place.places()) == 9; }));
  bench.kill();
  CHECK(eventually([&] { return processes_with(place.places()) == 0; }));
}

TEST_CASE("bench: behind a cloud's delays only what their bounds need is measured") {
  bench_place const place;
  auto bench = place.start({"--delayed", "--quick", "--list"});
  CHECK(bench.finish() == 0);
  CHECK(bench.output() ==
        "cycle/lease-postgresql\ncycle/redis-durable\n"
        "threads-32/lease-postgresql\nthreads-32/lease-postgresql-unflushed\nthreads-32/redis-durable\n"
        "batch-64/all-postgresql\nbatch-64/redis-durable-batch\n");
}

TEST_CASE("bench: what it does not know it refuses") {
  bench_place const place;
  auto bench = place.start({"--only", "no-such-thing"});
  CHECK(bench.finish() == 2);
  CHECK(place.start({"--no-such-option"}).finish() == 64);
}

TEST_CASE("bench: a loop is beside threads, with how long it stalls <sqlite>") {
  bench_place const place;
  auto bench = place.start({"--json", "--rounds", "1", "--milliseconds", "500", "--only", "loop-100/"});
  auto const status = bench.finish();
  INFO(bench.output());
  REQUIRE(status == 0);
  auto const systems = nlohmann::json::parse(bench.output()).at("scenarios")[0].at("systems");
  int measured = 0;
  for (auto const& each : systems) {
    if (each.at("id") != "loop-sqlite" && each.at("id") != "lease-sqlite") continue;
    ++measured;
    auto const& values = each.at("rounds")[0];
    CHECK(values.at("per_second") > 20);
    CHECK(values.at("per_second") < 501);
    CHECK(values.contains("stall_max_ms") == (each.at("id") == "loop-sqlite"));
  }
  CHECK(measured == 2);
}

TEST_CASE("bench: the thread of a loop makes no system call but futex, beside memory and threads <sqlite>") {
  bench_place const place;
  child_process bench({"/bin/sh", "-c",
                       "exec strace -f -ff -o " + place.folder.file("calls") + " " + ROWLOCK_BENCH_PROGRAM +
                           " --places " + place.places() +
                           " --anyway --rounds 1 --milliseconds 500 --only loop-100/loop-sqlite 2>&1"});
  auto const status = bench.finish();
  INFO(bench.output());
  REQUIRE(status == 0);
  // The first call starts threads, and asks for the host's name. The rest is of any thread, and of malloc.
  std::set<std::string> const known{"futex",           "brk",         "mmap",           "munmap", "mprotect",
                                    "madvise",         "rseq",        "prctl",          "exit",   "clone3",
                                    "rt_sigprocmask",  "uname",       "getpid",         "gettid", "getrandom",
                                    "set_robust_list", "sched_yield", "restart_syscall"};
  int wakes = 0;
  int loops = 0;
  for (auto const& each :
       std::filesystem::directory_iterator(std::filesystem::path(place.folder.file("calls")).parent_path())) {
    if (!each.path().filename().string().starts_with("calls.")) continue;
    std::ifstream in(each.path());
    std::string const all{std::istreambuf_iterator<char>(in), {}};
    if (all.find("prctl(PR_SET_NAME, \"loop\")") == all.npos) continue;
    ++loops;
    std::istringstream lines(all);
    for (std::string line; std::getline(lines, line);) {
      wakes += line.find("FUTEX_WAKE") != line.npos ? 1 : 0;
      auto const name = line.substr(0, line.find('('));
      if (line.find('(') == line.npos || line.starts_with("<") || line.starts_with("-") ||
          line.starts_with("+"))
        continue;
      CAPTURE(line);
      CHECK(known.contains(name));
    }
  }
  CHECK(loops == 2);  // without locks, and with them
  CHECK(wakes > 20);
}

}  // namespace
}  // namespace rowlock::test
