#include "reap/sweep.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "manager/identity.hpp"

namespace rowlock::reap {

using namespace std::chrono_literals;
using strategies::page;
using strategies::page_look;
using strategies::reaped_table;

namespace {

constexpr int most_tries = 8;  // of one batch, with 3.6 s of pauses
// A lock in the way passes, and each try waits for a second. A file with many busy clients can need many
// tries.
constexpr int most_tries_locked = 60;
constexpr std::chrono::nanoseconds first_wait = 50ms;
constexpr std::chrono::nanoseconds longest_wait = 1s;
constexpr std::chrono::nanoseconds longest_pause = 100ms;
constexpr std::size_t most_kept = 10'000;

// As a taker does: 2 % more than the term can last, for clocks whose rates differ by 1 %.
boot_time_point ripe(strategies::kept_term const& k) {
  return k.seen + std::chrono::nanoseconds(k.longest) + std::chrono::nanoseconds(k.longest) / 50;
}

}  // namespace

sweep::sweep(sessions::database& d, reaper_options const& o, std::stop_token stop)
    : database_(d), options_(o), stop_(std::move(stop)), statements_(d.statements(), o.idle) {
  result_.dry_run = o.dry_run;
  result_.idle = o.idle;
}

std::chrono::milliseconds sweep::so_far() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(boot_clock::now() - began_);
}

reap_result sweep::run() {
  go_through_permits();  // first: then their names can go
  for (auto const table : {reaped_table::locks, reaped_table::tokens}) go_through(table);
  end_kept();
  if (stop_.stop_requested()) result_.end = reap_end::stopped;
  ride_out([&](backend::connection& c) { result_.token_floor = statements_.floor(c, reply_deadline()); });
  result_.duration = so_far();
  return result_;
}

void sweep::record(reap_result const& r) {
  ride_out([&](backend::connection& c) {
    statements_.record(c, r.duration, managing::this_thread_owner(), to_json(r), reply_deadline());
  });
}

void sweep::go_through(reaped_table table) {
  page p{table, "", options_.batch};
  while (!stop_.stop_requested()) {
    auto const seen = clean(p);
    if (seen.examined == 0) return;
    p.after = seen.last;
    ++result_.batches;
    result_.examined += seen.examined;
    result_.left_observed += seen.left_observed;
    result_.left_ahead += seen.left_ahead;
    result_.duration = so_far();
    if (options_.progress) options_.progress(result_);
    if (seen.examined < p.size) return;
  }
}

void sweep::go_through_permits() {
  strategies::name_and_term after;
  while (!stop_.stop_requested()) {
    strategies::permits_look seen;
    std::int64_t gone = 0;
    ride_out([&](backend::connection& c) {
      seen = statements_.look_at_permits(c, after, options_.batch, reply_deadline());
      gone = static_cast<std::int64_t>(seen.due.size());
      if (!options_.dry_run && gone > 0) gone = statements_.remove_permits(c, seen.due, reply_deadline());
    });
    if (seen.examined == 0) return;
    after = seen.last;
    ++result_.batches;
    result_.examined += seen.examined;
    result_.deleted.permits += gone;
    result_.skipped += static_cast<std::int64_t>(seen.due.size()) - gone;
    result_.duration = so_far();
    if (options_.progress) options_.progress(result_);
    if (seen.examined < options_.batch) return;
  }
}

page_look sweep::clean(page const& p) {
  page_look seen;
  reap_counts gone;
  std::vector<strategies::kept_term> kept;
  std::chrono::nanoseconds held{0};
  // Each try looks again: a DELETE whose reply was lost is not counted, and not repeated.
  ride_out([&](backend::connection& c) {
    seen = statements_.look(c, p, reply_deadline());
    gone = seen.due;
    if (seen.kept > 0) kept = statements_.kept(c, p, seen, reply_deadline());
    if (options_.dry_run || seen.due.all() == 0) return;
    if (seen.highest_token > floor_) {
      statements_.raise_floor(c, seen.highest_token, reply_deadline());
      floor_ = seen.highest_token;
    }
    auto const sent = boot_clock::now();
    gone = statements_.remove(c, p, seen, reply_deadline());
    held = boot_clock::now() - sent;
  });
  result_.deleted.unique_insert += gone.unique_insert;
  result_.deleted.lease += gone.lease;
  result_.deleted.row_lock += gone.row_lock;
  result_.deleted.tokens += gone.tokens;
  result_.deleted.permit_names += gone.permit_names;
  result_.skipped += std::max<std::int64_t>(0, seen.due.all() - gone.all());
  for (auto& k : kept) {
    if (options_.dry_run || k.longest > options_.watch || kept_.size() >= most_kept)
      ++result_.left_observed;
    else
      kept_.push_back(std::move(k));
  }
  // Where one writer excludes all others, they get as much time as it took.
  if (held > 0ns && !database_.sql().no_row_locks.empty()) pause(std::min(held, longest_pause));
  return seen;
}

// Ends terms that a clock's jump back keeps, once they were seen unchanged for longer than they can last.
// lib/doc/reaper.md
void sweep::end_kept() {
  for (auto const& k : kept_) {
    if (auto const left = ripe(k) - boot_clock::now(); left > 0ns) pause(left);
    if (stop_.stop_requested()) return;
    bool ended = false;
    ride_out([&](backend::connection& c) {
      try {
        ended = statements_.end(c, k, reply_deadline());
      } catch (error const& e) {
        if (e.reason() != errc::row_locked) throw;  // a live transaction has the row
      }
    });
    ++(ended ? result_.ended : result_.skipped);
  }
}

void sweep::ride_out(std::function<void(backend::connection&)> const& what) {
  auto wait = first_wait;
  for (int tries = 1;; ++tries) {
    try {
      return what(session());
    } catch (error const& e) {
      auto const most = e.reason() == errc::row_locked ? most_tries_locked : most_tries;
      if (!e.retryable() || tries >= most || stop_.stop_requested()) throw;
    }
    pause(wait);
    wait = std::min(wait * 2, longest_wait);
  }
}

backend::connection& sweep::session() {
  if (!session_ || !session_->alive()) {
    session_.reset();
    session_ = database_.open(reply_deadline());
  }
  return *session_;
}

void sweep::pause(std::chrono::nanoseconds duration) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop_, duration, [] { return false; });
}

}  // namespace rowlock::reap
