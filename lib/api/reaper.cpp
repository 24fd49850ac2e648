#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <rowlock/error.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/reaper.hpp>

#include "reap/sweep.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

using namespace std::chrono_literals;

constexpr char const* reserved_name = "rowlock.reaper";

void check(reaper_options const& o) {
  auto const require = [](bool good, std::string const& message) {
    if (!good) throw error(errc::invalid_argument, message);
  };
  constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 366 * 100);
  require(o.idle >= 0ms && o.idle <= longest,
          fmt::format("idle of {} ms is out of range: 0 to 100 years", o.idle.count()));
  require(o.batch >= 1 && o.batch <= 100'000, fmt::format("batch of {}: 1 to 100000 rows", o.batch));
  require(o.wait >= 0ms && o.wait <= longest,
          fmt::format("wait of {} ms is out of range: 0 to 100 years", o.wait.count()));
  require(o.watch >= 0ms && o.watch <= 1h,
          fmt::format("watch of {} ms is out of range: 0 to 1 h", o.watch.count()));
  require(o.reply_timeout >= 10ms && o.reply_timeout <= 1h,
          fmt::format("reply_timeout of {} ms is out of range: 10 ms to 1 h", o.reply_timeout.count()));
}

manager_options tables(reaper_options const& o) {
  manager_options m;
  m.table_prefix = o.table_prefix;
  m.schema = o.schema;
  m.connections = 1;
  return m;
}

}  // namespace

char const* to_string(reap_end e) noexcept {
  switch (e) {
    case reap_end::finished:
      return "finished";
    case reap_end::stopped:
      return "stopped";
    case reap_end::lost:
      return "lost";
    case reap_end::busy:
      return "busy";
  }
  return "?";
}

std::string to_json(reap_result const& r) {
  nlohmann::ordered_json const out{{"end", to_string(r.end)},
                                   {"dry_run", r.dry_run},
                                   {"deleted",
                                    {{"unique_insert", r.deleted.unique_insert},
                                     {"lease", r.deleted.lease},
                                     {"row_lock", r.deleted.row_lock},
                                     {"permits", r.deleted.permits},
                                     {"permit_names", r.deleted.permit_names},
                                     {"tokens", r.deleted.tokens}}},
                                   {"examined", r.examined},
                                   {"skipped", r.skipped},
                                   {"ended", r.ended},
                                   {"left_observed", r.left_observed},
                                   {"left_ahead", r.left_ahead},
                                   {"batches", r.batches},
                                   {"token_floor", r.token_floor},
                                   {"idle_ms", r.idle.count()},
                                   {"duration_ms", r.duration.count()}};
  return out.dump();
}

reaper::reaper(connection_source source, reaper_options options)
    : source_(std::move(source)), options_(std::move(options)) {
  check(options_);
  backend::table_names::of(source_.implementation()->sql(), options_.schema, options_.table_prefix);
}

reap_result reaper::run(std::stop_token stop) {
  sessions::database database(source_.implementation(), tables(options_));
  if (options_.dry_run) return reap::sweep(database, options_, std::move(stop)).run();

  lock_manager manager(source_, tables(options_));
  auto one_at_a_time = manager.make_mutex(
      reserved_name, {.strategy = strategy::lease, .ttl = 30s, .fencing = false, .note = "rowlock reap"});
  auto const lease = one_at_a_time.try_acquire_for(options_.wait, stop);
  if (!lease) {
    reap_result none;
    none.end = lease.status() == acquire_status::cancelled ? reap_end::stopped : reap_end::busy;
    none.idle = options_.idle;
    none.holder = lease.holder();
    return none;
  }
  // Safety does not depend on the lease: two runs at once only do more work.
  std::stop_source both;
  std::stop_callback const by_caller(stop, [&both] { both.request_stop(); });
  std::stop_callback const by_loss(lease->loss_token(), [&both] { both.request_stop(); });
  reap::sweep all(database, options_, both.get_token());
  auto done = all.run();
  if (done.end == reap_end::stopped && !stop.stop_requested()) done.end = reap_end::lost;
  all.record(done);
  return done;
}

std::optional<last_reap> reaper::last() {
  sessions::database database(source_.implementation(), tables(options_));
  auto const deadline = boot_clock::now() + options_.reply_timeout;
  auto const session = database.open(deadline);
  return strategies::reaping(database.statements(), options_.idle).last(*session, deadline);
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
