#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>

#include "cli.hpp"
#include "duration.hpp"
#include "exit_status.hpp"
#include "holder.hpp"
#include "metrics.hpp"
#include "process/interrupt_watch.hpp"
#include "process/signals.hpp"
#include "text.hpp"

namespace rowlock::tool {
namespace {

using namespace std::chrono_literals;

struct reap_options {
  bool dry_run = false;
  bool quiet = false;
  std::optional<std::chrono::milliseconds> idle;
  std::optional<std::chrono::milliseconds> timeout;
  int batch = reaper_options{}.batch;
  std::string metrics;  ///< a file, or "-"

  /// Whether what was done is printed for people.
  bool silent() const { return quiet || metrics == "-"; }
};

constexpr char const* reap_footer = R"(
Deletes rows that are no longer needed from rowlock's tables: locks of strategy unique_insert whose time is over, at once;
names that nobody has used for --idle, and their latest tokens. It never deletes a lock that is held, nor a row that is
locked just now. The tokens of a name go on rising after its row is gone. Nothing depends on it: it keeps the tables
small.

It may run at any time, on any host, as often as you like, beside live locks. One run does the work at a time: a second
one waits for --timeout, then ends with 75. It is safe to end it with Ctrl-C, SIGTERM or SIGKILL.

From cron, once a day, silent unless something is wrong (put the password into ~/.pgpass, not here):
  17 3 * * *  ROWLOCK_DB=postgresql://rowlock_reaper@db.example.org/app rowlock reap --quiet

Two things stay although their time is over by the clock: locks with takeover "observed", because no clock can say that
they are over (rowlock release --force ends one), and names whose token is more than a day ahead of the database's clock.

With --metrics the file says what this run did, also if it failed, for node_exporter's textfile collector. It is made in the
same folder and then put in its place, so that nobody reads half of it. It keeps the time of the last run that succeeded.

Examples:
  rowlock reap --dry-run                  what would go, changing nothing
  rowlock reap --idle 7d                  keep names for a week after their last use
  rowlock list --reaper                   what it did last, and when
  rowlock reap --quiet --metrics /var/lib/prometheus/node-exporter/rowlock_reap.prom

Exit status: 0 done; 75 another run was under way until --timeout; 76 its own lease was lost and it stopped early; 64, 69,
70, 71, 74, 77, 78 as for all commands (rowlock --help); 78 also if only writing the metrics failed; 128+N ended by signal N
after the current batch.)";

/// "12 lock rows (2 unique_insert, 10 lease) and 3 tokens".
std::string in_words(reap_counts const& n) {
  auto const rows = n.unique_insert + n.lease + n.row_lock + n.permit_names;
  std::string kinds;
  auto const add = [&](std::int64_t count, char const* kind) {
    if (count > 0) kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  };
  add(n.unique_insert, "unique_insert");
  add(n.lease, "lease");
  add(n.row_lock, "row_lock");
  add(n.permit_names, "shared or semaphore");
  auto const many = [](std::int64_t count, char const* what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
  };
  return fmt::format("{}{}{} and {}", many(rows, "lock row"), kinds.empty() ? "" : " (" + kinds + ")",
                     n.permits == 0 ? "" : ", " + many(n.permits, "permit"), many(n.tokens, "token"));
}

std::string summary(reap_result const& r) {
  std::string text = (r.dry_run ? "Would delete " : "Deleted ") + in_words(r.deleted) +
                     fmt::format(" of {} in {}", r.examined, format_duration(r.duration));
  if (r.skipped > 0) text += fmt::format("; {} skipped: in use just now", r.skipped);
  if (r.ended > 0) text += fmt::format("; {} ended that a clock which went back had kept", r.ended);
  if (r.left_observed > 0) text += fmt::format("; {} left: takeover observed", r.left_observed);
  if (r.left_ahead > 0) text += fmt::format("; {} left: token ahead of the clock", r.left_ahead);
  return text;
}

/// One line on the terminal, overwritten as it goes, of runs that take over a second.
class progress_line {
 public:
  explicit progress_line(bool wanted) : on_(wanted && ::isatty(STDERR_FILENO) == 1) {}
  ~progress_line() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
  }
  progress_line(progress_line const&) = delete;
  progress_line& operator=(progress_line const&) = delete;

  void draw(reap_result const& r) {
    if (!on_ || r.duration < next_) return;
    next_ = r.duration + 200ms;
    drawn_ = true;
    fmt::print(stderr, "\r\x1b[K{} rows looked at, {} {}", r.examined, r.deleted.all(),
               r.dry_run ? "would go" : "deleted");
    std::fflush(stderr);
  }

 private:
  bool on_;
  bool drawn_ = false;
  std::chrono::milliseconds next_ = 1s;
};

end_of_program busy(reap_result const& r, reap_options const& options) {
  say(fmt::format(
      "another run is under way{}: it is {}",
      options.timeout == 0ms
          ? std::string()
          : ", and did not end within " + format_duration(options.timeout.value_or(reaper_options{}.wait)),
      r.holder ? describe(*r.holder) : "not known whose"));
  return {exit_busy, {}};
}

reaper_options options_for(database const& db, reap_options const& options) {
  reaper_options o;
  o.table_prefix = db.table_prefix;
  o.schema = db.schema;
  o.idle = options.idle.value_or(o.idle);
  o.wait = options.timeout.value_or(o.wait);
  o.batch = options.batch;
  o.dry_run = options.dry_run;
  return o;
}

/// `done`: what was done, up to the moment at which it failed if it does.
end_of_program reap(invocation& call, reap_options const& options, reap_result& done) {
  auto const& db = call.use_database(invocation::unnamed::refused);
  auto o = options_for(db, options);
  auto line = std::make_unique<progress_line>(!options.silent());
  o.progress = [&](reap_result const& so_far) {
    done = so_far;
    line->draw(so_far);
  };
  signal_setup const signals;
  std::signal(SIGPIPE, SIG_IGN);
  auto const signal_fd = signals.open();
  std::stop_source stop;
  std::atomic<int> interrupted = 0;
  {
    interrupt_watch const watch(signal_fd.get(), [&](int signal) {
      interrupted = signal;
      stop.request_stop();
    });
    with_standard_file(db, [&] { done = rowlock::reaper(source_from_url(db.url), o).run(stop.get_token()); });
  }
  line.reset();
  if (done.end == reap_end::busy) return busy(done, options);
  if (call.json)
    fmt::print("{}\n", nlohmann::ordered_json::parse(to_json(done)).dump(2));
  else if (!options.silent())
    fmt::print("{}.{}\n", summary(done), done.end == reap_end::finished ? "" : " Ended early.");
  if (interrupted != 0) return {128 + interrupted, interrupted};
  if (done.end != reap_end::lost) return {};
  say("the lease that keeps runs apart was lost, so this run stopped early: the next run deletes what is "
      "left");
  return {exit_lost, {}};
}

end_of_program reap_with_metrics(invocation& call, reap_options const& options) {
  if (options.metrics == "-" && call.json)
    throw failure(exit_usage,
                  "--metrics - and --json would both print to stdout: leave one out, or name a file");
  auto const start = std::chrono::steady_clock::now();
  reap_result done;
  auto end = reported(call, [&] { return reap(call, options, done); });
  auto const written = reported(call, [&] {
    reap_run const run{done, end.status, std::chrono::system_clock::now(),
                       std::chrono::steady_clock::now() - start};
    if (options.metrics == "-")
      fmt::print("{}", metrics_of(run, {}));
    else
      replace_file(options.metrics, metrics_of(run, last_success_in(options.metrics)));
    return end_of_program{};
  });
  if (end.status == exit_ok) end.status = written.status;
  return end;
}

}  // namespace

void add_reap(CLI::App& app, invocation& call) {
  auto const options = std::make_shared<reap_options>();
  auto* command =
      app.add_subcommand("reap", "Deletes rows that are no longer needed, to keep the tables small");
  command->fallthrough();
  command->add_flag("--dry-run", options->dry_run, "Only count what would go");
  add_duration(*command, "--idle", options->idle,
               "How long a name must be unused before it is deleted; default: 1d");
  command->add_option("--batch", options->batch, "Rows in one transaction, at most; default: 1000")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000));
  add_duration(*command, "--timeout", options->timeout,
               "How long to wait for another run to end; default: 10s");
  command->add_flag("--quiet", options->quiet, "Print nothing unless something is wrong");
  command
      ->add_option("--metrics", options->metrics,
                   "File for what the run did, for Prometheus; written also if it failed. -: stdout")
      ->type_name("PATH")
      ->excludes("--dry-run");
  command->footer(reap_footer);
  command->callback([&call, options] {
    call.chosen = [&call, options] {
      reap_result done;
      return options->metrics.empty() ? reap(call, *options, done) : reap_with_metrics(call, *options);
    };
  });
}

}  // namespace rowlock::tool
