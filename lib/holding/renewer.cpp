#include "holding/renewer.hpp"

#include <algorithm>
#include <rowlock/error.hpp>
#include <string_view>
#include <unordered_set>

#include "base/calls.hpp"
#include "base/thread_name.hpp"
#include "holding/outcome.hpp"

namespace rowlock::holding {

using namespace std::chrono_literals;

namespace {

std::chrono::nanoseconds interval(hold const& h) { return std::chrono::nanoseconds(h.facts().ttl) / 3; }

std::chrono::nanoseconds retry_interval(hold const& h) {
  return std::clamp<std::chrono::nanoseconds>(std::chrono::nanoseconds(h.facts().ttl) / 30, 20ms, 1s);
}

// Where a writer locks the whole database, a release can only be tried.
constexpr auto late_try_of_a_file = 100ms;

// Of one renewal. The smallest packet that a server takes in practice is 1 MiB.
constexpr std::size_t most_rows = 1000;
constexpr std::size_t most_bytes = std::size_t{128} * 1024;

loss_reason why_not_renewed(error const& e) noexcept {
  switch (e.reason()) {
    case errc::read_only:
      return loss_reason::read_only;
    case errc::row_locked:  // or the whole database
      return loss_reason::row_locked;
    default:
      return loss_reason::database_unreachable;
  }
}

strategies::name_and_term which(hold const& h) { return {h.facts().name, h.facts().term}; }

}  // namespace

renewer::renewer(sessions::database& d, sessions::connection_pool& pool, strategies::catalogue const& all,
                 watchdog& w, sessions::events const& e, manager_options const& o,
                 std::function<boot_time_point()> close_unused)
    : database_(d),
      pool_(pool),
      watchdog_(w),
      events_(e),
      reply_timeout_(o.reply_timeout),
      release_timeout_(std::min(o.reply_timeout, std::max<std::chrono::milliseconds>(o.release_timeout, 1s))),
      idle_timeout_(o.idle_timeout),
      close_unused_(std::move(close_unused)),
      tables_(d.statements()),
      strategies_(all) {}

void renewer::keep(std::shared_ptr<hold> const& h) {
  auto const next = h->facts().sent_at + interval(*h);
  std::lock_guard const guard(mutex_);
  if (closed_) return;  // the closer releases it
  kept_.emplace(h.get(), kept{h, next});
  start();
  if (next >= armed_for_) return;
  armed_for_ = next;
  waiter_.wake();
}

void renewer::forget(hold const& h) noexcept {
  std::lock_guard const guard(mutex_);
  kept_.erase(&h);
}

void renewer::give_back_later(hold const& h) noexcept {
  auto const& f = h.facts();
  give_back_later(f.name, f.term, f.strategy, h.at_least(), h.leftover_until());
}

void renewer::give_back_later(std::string const& name, term_id const& term, rowlock::strategy how,
                              std::chrono::milliseconds at_least, boot_time_point until,
                              boot_time_point may_come_until) noexcept try {
  late_release r{{name, term}, how, at_least, until, may_come_until};
  r.next = boot_clock::now() + first_late_pause / 10;
  std::lock_guard const guard(mutex_);
  late_.add(std::move(r));
  start();
  waiter_.wake();
} catch (std::exception const& e) {
  failed(e.what());
}

void renewer::run(std::stop_token stop) {
  base::name_thread("rowlock-renew");
  base::serving const here;
  std::stop_callback const on_stop(stop, [this] { waiter_.wake(); });
  for (;;) {
    auto next = boot_clock::now() + 100ms;
    try {
      next = work();
    } catch (std::exception const& e) {
      failed(e.what());
    } catch (...) {
      failed("something that is no std::exception was thrown");
    }
    borrowed_.reset();
    if (stop.stop_requested() && nothing_left()) {
      connection_.reset();  // handles keep the manager's memory, but a program's pool wants it back
      return;
    }
    waiter_.wait_until(next);
  }
}

bool renewer::nothing_left() {
  std::lock_guard const guard(mutex_);
  return late_.empty() || boot_clock::now() >= stop_by_;
}

boot_time_point renewer::work() {
  auto const start = boot_clock::now();
  if (auto const holds = due(start); !holds.empty()) {
    auto const soon = renew(holds);
    reschedule(holds, start, interval);
    reschedule(soon, boot_clock::now(), retry_interval);
  }
  give_back_due();
  ask_who_locks();
  return std::min({next_work(), close_own_unused(), close_unused_()});
}

boot_time_point renewer::stop_by() {
  std::lock_guard const guard(mutex_);
  return stop_by_;
}

renewer::batch renewer::due(boot_time_point now) {
  std::lock_guard const guard(mutex_);
  batch holds;
  if (!any_due(now)) return holds;
  for (auto const& [key, k] : kept_)
    if (k.next - interval(*k.what) / 2 <= now) holds.push_back(k.what);
  return holds;
}

boot_time_point renewer::next_work() {
  std::lock_guard const guard(mutex_);
  if (armed_for_ <= boot_clock::now()) armed_for_ = boot_time_point::max();
  armed_for_ = std::min(armed_for_, late_.next());
  for (auto const& [key, k] : kept_) armed_for_ = std::min(armed_for_, k.next);
  return armed_for_;
}

void renewer::reschedule(batch const& holds, boot_time_point from,
                         std::chrono::nanoseconds (*after)(hold const&)) {
  std::lock_guard const guard(mutex_);
  for (auto const& h : holds)
    if (auto found = kept_.find(h.get()); found != kept_.end()) found->second.next = from + after(*h);
}

boot_time_point renewer::close_own_unused() {
  if (!connection_) return boot_time_point::max();
  auto const due = used_ + idle_timeout_;
  if (due > boot_clock::now()) return due;
  connection_.reset();
  return boot_time_point::max();
}

backend::connection& renewer::connection(boot_time_point deadline) {
  used_ = boot_clock::now();
  if (connection_ && connection_->alive()) return *connection_;
  connection_.reset();
  try {
    connection_ = database_.open(deadline);
    return *connection_;
  } catch (error const& e) {
    if (e.reason() != errc::too_many_connections) throw;
  }
  // Other programs use up the server's connections.
  if (!borrowed_) borrowed_.emplace(pool_.borrow(deadline));
  return **borrowed_;
}

// A removed or replaced file can't renew: other processes might have the old one open.
renewer::batch renewer::still_there(batch const& holds) {
  batch there;
  std::map<std::size_t, bool> gone;
  for (auto const& h : holds) {
    auto const server = h->facts().server;
    auto const [known, fresh] = gone.try_emplace(server, false);
    if (fresh) known->second = database_.gone(server);
    if (known->second)
      watchdog_.report_lost(h, loss_reason::row_gone);
    else
      there.push_back(h);
  }
  return there;
}

renewer::batch renewer::renew(batch const& holds) {
  batch locks;
  batch permits;
  for (auto& h : still_there(holds))
    (traits_of(h->facts()).counted ? permits : locks).push_back(std::move(h));
  auto soon = renew_in_parts(locks);
  auto const more = renew_in_parts(permits);
  soon.insert(soon.end(), more.begin(), more.end());
  return soon;
}

// A server limits a statement's size (max_allowed_packet), and a refused part must not cost all locks. The
// most urgent go first.
renewer::batch renewer::renew_in_parts(batch const& of_a_table) {
  std::multimap<boot_time_point, std::shared_ptr<hold>>
      urgent;  // with copies of the keys: trust can end meanwhile
  for (auto const& h : of_a_table) urgent.emplace(h->trusted_until(), h);
  batch soon;
  for (auto next = urgent.begin(); next != urgent.end();) {
    batch part;
    for (std::size_t bytes = 0; next != urgent.end() && part.size() < most_rows; ++next) {
      auto const& h = next->second;
      bytes += strategies::room_for(which(*h));
      if (!part.empty() && bytes > most_bytes) break;
      if (h->valid()) part.push_back(h);  // else the watchdog reports it
    }
    auto again = renew_part(part);
    soon.insert(soon.end(), std::move_iterator(again.begin()), std::move_iterator(again.end()));
  }
  return soon;
}

renewer::batch renewer::renew_part(batch const& alive) {
  if (alive.empty()) return {};
  auto const earliest_end = alive.front()->trusted_until();
  auto const now = boot_clock::now();
  for (auto const& h : alive) h->renewal_begins(now);
  auto const deadline =
      now + std::max<std::chrono::nanoseconds>(
                20ms, std::min<std::chrono::nanoseconds>((earliest_end - now) / 2, reply_timeout_));
  try {
    return renew_on(connection(deadline), alive, deadline);
  } catch (error const& e) {
    failed(e.what());
    auto const why = std::make_shared<trouble const>(trouble{why_not_renewed(e), e.what()});
    for (auto const& h : alive) h->hindered_by(why);
    return still_there(alive);
  }
}

renewer::batch renewer::renew_on(backend::connection& session, batch const& holds, boot_time_point deadline) {
  std::vector<strategies::name_and_term> wanted;
  wanted.reserve(holds.size());
  bool durable = false;
  for (auto const& h : holds) {
    wanted.push_back(which(*h));
    durable = durable || h->facts().needs_flush();
  }
  auto const sent_at = boot_clock::now();
  auto const renewed = tables_.of(holds.front()->facts().strategy).renew(session, wanted, deadline, durable);
  std::unordered_set<std::string_view> terms;
  for (auto const& t : renewed) terms.insert(t.value);
  batch unconfirmed;
  for (auto const& h : holds) {
    if (!terms.contains(h->facts().term.value)) {
      unconfirmed.push_back(h);
    } else if (h->prolong(sent_at, h->facts().ttl)) {
      events_.report({.kind = event_kind::renewed,
                      .name = h->facts().name,
                      .term = h->facts().term.value,
                      .token = h->facts().token,
                      .duration = boot_clock::now() - sent_at,
                      .trusted_until = h->trusted_until()});
      h->tell_trust(events_);
    } else if (watchdog_.report_lost(h, h->why_expired())) {
      // The row was prolonged, but the lock is lost.
      give_back_later(*h);
    }
  }
  return unconfirmed.empty() ? unconfirmed : settle(session, unconfirmed, deadline);
}

// A renewal also skips locked rows. Only a plain read proves a loss.
renewer::batch renewer::settle(backend::connection& session, batch const& unconfirmed,
                               boot_time_point deadline) {
  std::vector<strategies::name_and_term> wanted;
  for (auto const& h : unconfirmed) wanted.push_back(which(*h));
  std::unordered_set<std::string> only_locked;
  for (auto const& s : tables_.of(unconfirmed.front()->facts().strategy).check(session, wanted, deadline))
    if (!s.revoked && !s.hard_limit_reached) only_locked.insert(s.term.value);
  batch again;
  for (auto const& h : unconfirmed) {
    outcome what;
    if (!only_locked.contains(h->facts().term.value)) what = outcome_of(tables_, session, *h, deadline);
    if (what.done && keep_its_record(session, *h, deadline))
      end_recorded(*h);
    else if (what.lost)
      watchdog_.report_lost(h, *what.lost);
    else
      again.push_back(h);
  }
  for (auto const& h : again) remember_locked(h);
  return again;
}

// Only from the second try on: a transaction that requires the lock is usually over by then.
void renewer::remember_locked(std::shared_ptr<hold> const& h) {
  auto const before = h->hindrance();
  if (!before || before->why != loss_reason::row_locked)
    h->hindered_by(std::make_shared<trouble const>(trouble{loss_reason::row_locked}));
  else if (before->what.empty())
    locked_.push_back(h);
}

void renewer::ask_who_locks() noexcept {
  auto const all = std::exchange(locked_, {});
  for (auto const& h : all) {
    if (renewal_waits() || !h->held()) return;
    try {
      auto const deadline = late_deadline();
      auto const who =
          tables_.of(h->facts().strategy).who_locks(connection(deadline), h->facts().name, deadline);
      auto const known = h->hindrance();
      if (known && known->why == loss_reason::row_locked)
        h->hindered_by(std::make_shared<trouble const>(
            trouble{loss_reason::row_locked, who.empty() ? "the database does not tell which" : who}));
    } catch (std::exception const& e) {
      failed(e.what());
    }
  }
}

bool renewer::keep_its_record(backend::connection& session, hold& h, boot_time_point deadline) {
  strategies::name_and_term const record{h.facts().name, h.term_of_record()};
  return !tables_.locks.is_locked(session, record, deadline) && keep_record(tables_, session, h, deadline);
}

void renewer::end_recorded(hold& h) noexcept {
  h.mark_recorded();
  forget(h);
  watchdog_.forget(h);
  if (!h.begin_release()) return;  // another thread has released it
  h.end_release();
  events_.report({.kind = event_kind::released, .name = h.facts().name, .term = h.facts().term.value});
}

bool renewer::any_due(boot_time_point now) const {
  return std::any_of(kept_.begin(), kept_.end(), [&](auto const& k) { return k.second.next <= now; });
}

bool renewer::renewal_waits() {
  std::lock_guard const guard(mutex_);
  return any_due(boot_clock::now());
}

std::vector<std::uint64_t> renewer::late_due() {
  std::lock_guard const guard(mutex_);
  return late_.due(boot_clock::now());
}

void renewer::give_back_due() {
  for (auto const number : late_due()) {
    if (renewal_waits()) return;
    std::unique_lock lock(mutex_);
    auto one = late_.take(number);
    lock.unlock();
    if (one.empty()) continue;  // another thread releases it
    auto const what = try_late(one.mapped());
    if (what == tried::done) continue;
    lock.lock();
    if (what == tried::not_there && (closed_ || boot_clock::now() >= one.mapped().may_come_until)) continue;
    one.mapped().next = boot_clock::now() + (closed_ ? first_late_pause : one.mapped().pause);
    if (what == tried::no_answer) late_.none_before(boot_clock::now() + first_late_pause);
    late_.put_back(std::move(one));
    if (what == tried::no_answer) return;
  }
}

renewer::tried renewer::try_late(late_release& one) noexcept {
  if (boot_clock::now() >= one.until) return tried::done;
  auto what = tried::again;
  try {
    what = give_back(one);
    if (what == tried::done) return what;
  } catch (error const& e) {
    failed(e.what());
    if (e.reason() != errc::row_locked && e.reason() != errc::conflict) what = tried::no_answer;
  } catch (std::exception const& e) {
    failed(e.what());
    what = tried::no_answer;
  }
  one.lengthen_pause();
  return what;
}

// @return done, not_there, or again if the row is locked
renewer::tried renewer::give_back(late_release const& one) {
  auto const start = boot_clock::now();
  auto deadline = late_deadline();
  auto& session = connection(deadline);
  if (database_.sql().writes_lock_database)
    deadline = std::min<boot_time_point>(deadline, start + late_try_of_a_file);
  else if (tables_.of(one.strategy).is_locked(session, one.which, deadline))
    return tried::again;
  if (!strategies_.of(one.strategy).give_back(session, one.which, one.at_least, deadline).was_there)
    return tried::not_there;
  events_.report({.kind = event_kind::released,
                  .name = one.which.name,
                  .term = one.which.term.value,
                  .duration = boot_clock::now() - start});
  return tried::done;
}

boot_time_point renewer::late_deadline() {
  std::lock_guard const guard(mutex_);
  auto until = std::min<boot_time_point>(boot_clock::now() + release_timeout_, stop_by_);
  for (auto const& [key, k] : kept_) until = std::min(until, k.next + interval(*k.what) / 2);
  return until;
}

void renewer::failed(std::string_view what) noexcept {
  events_.report({.kind = event_kind::error, .message = what});
}

void renewer::stop(boot_time_point deadline, std::thread::id spare) noexcept {
  std::unordered_map<hold const*, kept> dropped;  // destroyed when the mutex is free
  std::unique_lock lock(mutex_);
  closed_ = true;
  dropped.swap(kept_);
  stop_by_ = deadline;
  late_.hurry();
  try {
    if (!late_.empty()) start();       // added by a call that was under way during an earlier stop()
  } catch (std::exception const& e) {  // no thread. The term ends by its expiry
    failed(e.what());
  }
  if (!thread_.joinable()) return;
  thread_.request_stop();
  if (thread_.get_id() == spare) {
    lock.unlock();
    return give_back_here(deadline);
  }
  auto ending = std::move(thread_);
  stopping_ = true;
  lock.unlock();
  ending.join();
  lock.lock();
  stopping_ = false;
}

// On the calling thread: the renewer's own is the one that ends the process or the manager.
void renewer::give_back_here(boot_time_point deadline) noexcept try {
  base::event const never;
  for (;;) {
    late_releases::numbered left;
    {
      std::lock_guard const guard(mutex_);
      left = late_.take_all();
    }
    std::erase_if(left, [&](late_releases::numbered::value_type const& entry) {
      auto const& r = entry.second;
      try {
        auto loan = pool_.borrow(deadline);
        strategies_.of(r.strategy).give_back(*loan, r.which, r.at_least, deadline);
        return true;
      } catch (std::exception const& e) {
        failed(e.what());
        return boot_clock::now() >= deadline;
      }
    });
    if (left.empty()) return;
    std::unique_lock lock(mutex_);
    late_.put_back(left);
    lock.unlock();
    base::wait_for(never, std::min<boot_time_point>(deadline, boot_clock::now() + first_late_pause / 4));
  }
} catch (std::exception const& e) {
  failed(e.what());
}

void renewer::start() {
  if (thread_.joinable() || stopping_) return;
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

}  // namespace rowlock::holding
