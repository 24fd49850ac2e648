// rowlock list --metrics and rowlock reap --metrics on real databases, read by Prometheus' own client.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <rowlock/metrics.hpp>

#include "cli/place.hpp"

using namespace rowlock::test;
using nlohmann::json;

namespace {

/// What Prometheus' own parser makes of it, sorted: "NAME TYPE SAMPLES" of each metric with samples.
words parsed(std::string const& text) {
  auto const o = run({"/usr/bin/python3", "-c", R"(import sys
from prometheus_client.parser import text_string_to_metric_families
for f in text_string_to_metric_families(sys.stdin.read()):
  assert f.documentation, f.name
  assert len({str(s.labels) + s.name for s in f.samples}) == len(f.samples), f.name
  if f.samples: print(f.name, f.type, len(f.samples)))"},
                     {{"LC_ALL", "C.UTF-8"}}, text);
  CHECK(o.status == 0);
  CHECK(o.err == "");
  words all;
  std::istringstream lines(o.out);
  for (std::string one; std::getline(lines, one);) all.push_back(one);
  std::sort(all.begin(), all.end());
  return all;
}

bool has(std::string const& text, std::string const& series) {
  return ("\n" + text).find("\n" + series) != std::string::npos;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string locks(std::string const& strategy, std::string const& state) {
  return fmt::format("rowlock_locks{{strategy=\"{}\",state=\"{}\"}}", strategy, state);
}

std::string unreachable(place const& p) {
  return p.dialect() == "postgresql" ? p.url() + " port=1"
                                     : std::regex_replace(p.url(), std::regex(":[0-9]+/"), ":1/");
}

/// `rowlock reap --metrics` with a file in a folder of its own.
class reaped {
 public:
  explicit reaped(place const& p) : place_(p) {}
  std::string file() const { return folder_.file("rowlock.prom"); }
  std::string text() const { return read_file(file()); }
  finished run(words more = {}, environment env = {}) const {
    words args{"reap", "--metrics", file()};
    args.insert(args.end(), more.begin(), more.end());
    return place_.rowlock(args, std::move(env));
  }
  double value(std::string const& name) const { return metric_in(text(), "rowlock_reap_" + name); }
  std::size_t files() const {
    std::filesystem::directory_iterator const all(folder_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  place const& place_;
  scratch_folder folder_;
};

words const reap_metrics{"rowlock_reap_deleted_rows gauge 6",
                         "rowlock_reap_duration_seconds gauge 1",
                         "rowlock_reap_examined_rows gauge 1",
                         "rowlock_reap_exit_status gauge 1",
                         "rowlock_reap_last_run_timestamp_seconds gauge 1",
                         "rowlock_reap_last_success_timestamp_seconds gauge 1",
                         "rowlock_reap_left_rows gauge 2",
                         "rowlock_reap_skipped_rows gauge 1",
                         "rowlock_reap_success gauge 1"};

}  // namespace

TEST_CASE("metrics: Prometheus' parser reads what the class writes") {
  rowlock::metrics const m;
  CHECK(parsed(m.prometheus()) ==
        words{"rowlock_acquire_duration_seconds histogram 20", "rowlock_acquisitions counter 1",
              "rowlock_errors counter 1", "rowlock_locks_held gauge 1", "rowlock_losses counter 10",
              "rowlock_quarantines counter 1", "rowlock_release_duration_seconds histogram 20",
              "rowlock_releases counter 1", "rowlock_renewal_duration_seconds histogram 20",
              "rowlock_renewals counter 1", "rowlock_waits counter 2"});
}

CLI_CASE("list --metrics: locks by strategy and state, the oldest, what the reaper did") {
  Place const p;
  auto const none = p.rowlock({"list", "--metrics"});
  CHECK(none.status == 0);
  words expected{"rowlock_locks gauge 19", "rowlock_reaper_last_run_timestamp_seconds gauge 1"};
  if (p.dialect() != "sqlite")
    for (auto const* one : {"grants_in_seconds", "frozen_seconds", "quarantine_enabled"})
      expected.push_back(fmt::format("rowlock_{} gauge 1", one));
  if (p.dialect() == "postgresql") expected.push_back("rowlock_oldest_snapshot_transactions gauge 1");
  // The server does not tell the age of each snapshot.
  if (has(none.out, "rowlock_oldest_snapshot_seconds"))
    expected.push_back("rowlock_oldest_snapshot_seconds gauge 1");
  std::sort(expected.begin(), expected.end());
  CHECK(parsed(none.out) == expected);
  CHECK(metric_in(none.out, "rowlock_reaper_last_run_timestamp_seconds") == 0);
  auto const before = now();
  std::vector<std::unique_ptr<holder>> holders;
  for (auto const& strategy : p.strategies())
    for (int i = 0; i < 2; ++i)
      holders.push_back(std::make_unique<holder>(
          p, words{"--ttl", "60s", "--strategy", strategy, fmt::format("{}\"\n{}", strategy, i)}));
  leave_idle(p, 3);
  REQUIRE(p.rowlock({"reap", "--quiet"}).status == 0);
  leave_idle(p, 4);
  auto const text = p.rowlock({"list", "--metrics"}).out;
  for (auto const& strategy : p.strategies()) {
    CHECK(metric_in(text, locks(strategy, "held")) == 2);
    auto const oldest = "rowlock_oldest_lock_timestamp_seconds{strategy=\"" + strategy + "\"}";
    if (strategy == "row_lock" && !has(text, oldest)) continue;  // the database does not tell
    CHECK(metric_in(text, oldest) >= before - 2);
    CHECK(metric_in(text, oldest) <= now() + 2);
  }
  CHECK(text.find("idle") == text.npos);
  CHECK(text.find("\"lease\\") == text.npos);  // no names
  std::string const last = "rowlock_reaper_last_run_";
  CHECK(metric_in(text, last + "timestamp_seconds") >= before - 2);
  CHECK(metric_in(text, last + "timestamp_seconds") <= now() + 2);
  CHECK(metric_in(text, last + "success") == 1);
  CHECK(metric_in(text, last + "deleted_rows{kind=\"lease\"}") == 3);
  CHECK(metric_in(text, last + "duration_seconds") < 60);
  CHECK(parsed(text).size() == expected.size() + 7);
  auto const all = p.rowlock({"list", "--metrics", "--all"}).out;
  CHECK(metric_in(all, locks("lease", "idle")) == 4 + 1);  // and rowlock.reaper
  CHECK(metric_in(all, locks("lease", "held")) == 2);
}

SERVER_CASE("list --metrics: whether locks are granted") {
  Place const p;
  auto const value = [&](std::string const& name) {
    return metric_in(p.rowlock({"list", "--metrics"}).out, "rowlock_" + name);
  };
  bool const on_postgresql = p.dialect() == "postgresql";
  auto const in_an_hour =
      on_postgresql ? "clock_timestamp() + interval '1 hour'" : "utc_timestamp(6) + INTERVAL 1 HOUR";
  CHECK(value("grants_in_seconds") == 0);
  CHECK(value("frozen_seconds") == 0);
  CHECK(value("quarantine_enabled") == 1);
  p.sql(fmt::format("UPDATE rowlock_quarantine SET enabled = {}, frozen_until = {}",
                    on_postgresql ? "false" : "0", in_an_hour));
  CHECK(value("frozen_seconds") > 3500);
  CHECK(value("quarantine_enabled") == 0);
  p.sql(fmt::format("UPDATE rowlock_pulse SET safe_from = {}{}", in_an_hour,
                    on_postgresql ? ", made_by = pg_current_xact_id()::xid" : ""));
  CHECK(value("grants_in_seconds") > 3500);
  p.sql(on_postgresql ? "DELETE FROM rowlock_pulse" : "UPDATE rowlock_pulse SET made_by = made_by + 1");
  CHECK(std::isinf(value("grants_in_seconds")));
}

CLI_CASE("list --metrics: each permit counts") {
  Place const p;
  std::vector<std::unique_ptr<holder>> holders;
  for (int i = 0; i < 2; ++i) {
    holders.push_back(std::make_unique<holder>(p, words{"--shared", "read"}));
    holders.push_back(std::make_unique<holder>(p, words{"--permits", "3", "counted"}));
  }
  auto const text = p.rowlock({"list", "--metrics"}).out;
  CHECK(metric_in(text, locks("shared", "held")) == 2);
  CHECK(metric_in(text, locks("semaphore", "held")) == 2);
  CHECK(metric_in(text, locks("lease", "held")) == 0);
}

CLI_CASE(
    "list --metrics: what is expired is not held, nor the oldest; nor is what is to be given back free") {
  Place const p;
  holder const h(p, {"--ttl", "60s", "n"});
  h.signal(SIGSTOP);
  p.sql("UPDATE rowlock_locks SET revoked = (1 = 1)");
  auto const revoked = p.rowlock({"list", "--metrics"}).out;
  CHECK(metric_in(revoked, locks("lease", "revoked")) == 1);
  CHECK(metric_in(revoked, locks("lease", "held")) == 0);
  CHECK(has(revoked, "rowlock_oldest_lock_timestamp_seconds{"));
  p.sql("UPDATE rowlock_locks SET expires_at = " + hours_ago(p, 1));
  auto const text = p.rowlock({"list", "--metrics"}).out;
  CHECK(metric_in(text, locks("lease", "expired")) == 1);
  CHECK(metric_in(text, locks("lease", "revoked")) == 0);
  CHECK_FALSE(has(text, "rowlock_oldest_lock_timestamp_seconds{"));
}

CLI_CASE("list --metrics: nothing at all if something fails; what another version of the reaper wrote") {
  Place const p;
  REQUIRE(p.rowlock({"reap", "--quiet"}).status == 0);
  for (std::string const report : {"[]", "{}", "{\"deleted\": 1, \"end\": 2, \"examined\": \"x\"}"}) {
    p.sql("UPDATE rowlock_reaper SET report = '" + report + "'");
    auto const text = p.rowlock({"list", "--metrics"}).out;
    CHECK(metric_in(text, "rowlock_reaper_last_run_timestamp_seconds") > 0);
    CHECK_FALSE(has(text, "rowlock_reaper_last_run_deleted_rows{"));
    CHECK_FALSE(has(text, "rowlock_reaper_last_run_success 1"));
    CHECK(parsed(text).size() >= 3);
  }
  p.sql("ALTER TABLE rowlock_reaper RENAME TO elsewhere");
  auto const failed = p.rowlock({"list", "--metrics"});
  CHECK(failed.status == 78);
  CHECK(failed.out.empty());
}

CLI_CASE("reap --metrics: a file anew for each run, which others may read; - is stdout") {
  Place const p;
  reaped const r(p);
  leave_idle(p, 3);
  auto const before = now();
  auto const done = r.run();
  CHECK(done.status == 0);
  CHECK(done.out.rfind("Deleted 3 lock rows", 0) == 0);
  CHECK(parsed(r.text()) == reap_metrics);
  CHECK(r.value("success") == 1);
  CHECK(r.value("exit_status") == 0);
  CHECK(r.value("deleted_rows{kind=\"lease\"}") == 3);
  CHECK(r.value("examined_rows") == 4);
  CHECK(r.value("last_run_timestamp_seconds") >= before - 0.001);
  CHECK(r.value("last_success_timestamp_seconds") == r.value("last_run_timestamp_seconds"));
  CHECK(r.value("duration_seconds") > 0);
  CHECK(r.value("duration_seconds") <= now() - before + 0.001);
  struct ::stat was {};
  REQUIRE(::stat(r.file().c_str(), &was) == 0);
  auto const mask = ::umask(0);
  ::umask(mask);
  CHECK((was.st_mode & 07777) == (0644 & ~mask));
  CHECK(r.run({"--quiet", "--json"}).status == 0);
  CHECK(r.value("deleted_rows{kind=\"lease\"}") == 0);
  CHECK(r.files() == 1);
  auto const out = p.rowlock({"reap", "--metrics", "-"});
  CHECK(out.status == 0);
  CHECK(parsed(out.out) == reap_metrics);
}

CLI_CASE("reap --metrics: another run is under way; the last success stays") {
  Place const p;
  reaped const r(p);
  REQUIRE(r.run({"--quiet"}).status == 0);
  auto const success = r.value("last_success_timestamp_seconds");
  auto const run = r.value("last_run_timestamp_seconds");
  other_reaper const other(p);
  for (int i = 0; i < 2; ++i) {  // also after a run that failed
    CHECK(r.run({"--timeout", "0"}).status == 75);
    CHECK(r.value("success") == 0);
    CHECK(r.value("exit_status") == 75);
    CHECK(r.value("last_success_timestamp_seconds") == success);
    CHECK(r.value("last_run_timestamp_seconds") > run);
    CHECK(parsed(r.text()) == reap_metrics);
  }
}

SERVER_CASE("reap --metrics: the server is away, at first and later") {
  Place const p;
  reaped const r(p);
  environment const away{{"ROWLOCK_DB", unreachable(p)}};
  CHECK(r.run({"--timeout", "100ms"}, away).status == 69);
  CHECK(r.value("exit_status") == 69);
  CHECK_FALSE(has(r.text(), "rowlock_reap_last_success"));  // not known, which is not the same as never
  REQUIRE(r.run().status == 0);
  auto const success = r.value("last_success_timestamp_seconds");
  CHECK(r.run({"--timeout", "100ms"}, away).status == 69);
  CHECK(r.value("success") == 0);
  CHECK(r.value("last_success_timestamp_seconds") == success);
}

CLI_CASE("reap --metrics: a run that fails half-way says what it did until then") {
  Place const p;
  reaped const r(p);
  leave_idle(p, 3);
  p.sql("ALTER TABLE rowlock_reaper RENAME TO elsewhere");  // what it writes last
  auto const failed = r.run();
  CHECK(failed.status != 0);
  CHECK(r.value("exit_status") == failed.status);
  CHECK(r.value("success") == 0);
  CHECK(r.value("deleted_rows{kind=\"lease\"}") == 3);
}

CLI_CASE("reap --metrics: SIGTERM") {
  Place const p;
  reaped const r(p);
  leave_idle(p, 20'000);
  program running(p.command({"reap", "--batch", "1", "--quiet", "--metrics", r.file()}), p.variables());
  REQUIRE(within(60s, [&] {
    return json::parse(p.rowlock({"reap", "--dry-run", "--json"}).out)["examined"] < 20'000;
  }));
  running.signal(SIGTERM);
  CHECK(running.wait() == 128 + SIGTERM);
  CHECK(r.value("exit_status") == 128 + SIGTERM);
  CHECK(r.value("success") == 0);
  CHECK(r.value("deleted_rows{kind=\"lease\"}") > 0);
}

CLI_CASE("reap --metrics: a file that can't be written is named, and why; the run was done all the same") {
  Place const p;
  scratch_folder const folder;
  std::ofstream(folder.file("plain")) << "x";
  // As /dev/null would be, which everybody would miss if root had a plain file put there.
  auto const pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  // sysfs lets nobody make files, not even root.
  for (auto const& file : {folder.file("missing/m.prom"), folder.file("plain/m.prom"),
                           std::string("/sys/m.prom"), folder.path().string(), pipe}) {
    CAPTURE(file);
    p.sql("DELETE FROM rowlock_locks");
    leave_idle(p, 2);
    auto const r = p.rowlock({"reap", "--metrics", file});
    CHECK(r.status == 78);
    CHECK(r.says("cannot write the metrics to " + file + ": "));
    CHECK(r.out.rfind("Deleted 2 lock rows", 0) == 0);
  }
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  // What became of the run is more.
  other_reaper const other(p);
  auto const busy = p.rowlock({"reap", "--timeout", "0", "--metrics", folder.file("missing/m.prom")});
  CHECK(busy.status == 75);
  CHECK(busy.says("another run is under way"));
  CHECK(busy.says("cannot write the metrics"));
}

SERVER_CASE("reap --metrics: where there is no room the former file stays, and nothing beside it") {
  Place const p;
  reaped const r(p);
  REQUIRE(r.run().status == 0);
  auto const before = r.text();
  words command{"sh", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"};
  for (auto const& word : p.command({"reap", "--quiet", "--metrics", r.file()})) command.push_back(word);
  CHECK(run(command, p.variables()).status == 78);
  CHECK(r.text() == before);
  CHECK(r.files() == 1);
}

CLI_CASE("metrics: stdout that does not take them is told, and the run's messages need nobody to hear them") {
  Place const p;
  for (words const& args : {words{"list", "--metrics"}, {"reap", "--metrics", "-"}}) {
    words command{"sh", "-c", "exec \"$@\" >/dev/full", "sh"};
    for (auto const& word : p.command(args)) command.push_back(word);
    auto const r = run(command, p.variables());
    CHECK(r.status == 74);
    CHECK(r.says("the output could not be written: No space left on device"));
  }
  reaped const r(p);
  other_reaper const other(p);
  words command{"sh", "-c", "exec \"$@\" 2>/dev/full", "sh"};
  for (auto const& word : p.command({"reap", "--timeout", "0", "--metrics", r.file()}))
    command.push_back(word);
  CHECK(run(command, p.variables()).status == 75);
  CHECK(r.value("exit_status") == 75);
}

TEST_CASE("metrics: what can't be had together is a mistake on the command line") {
  on_sqlite const p;
  for (words const& args : {words{"list", "--metrics", "--json"},
                            {"--json", "list", "--metrics"},
                            {"list", "--metrics", "--reaper"},
                            {"list", "--metrics", "n*"},
                            {"reap", "--metrics"},
                            {"reap", "--metrics", "-", "--json"},
                            {"reap", "--metrics", "m.prom", "--dry-run"}}) {
    auto const r = p.rowlock(args);
    CHECK(r.status == 64);
    CHECK(r.out.empty());
    CHECK(r.says("--metrics"));
  }
}
