#include "manager/manager.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/process_end.hpp"
#include "base/text.hpp"
#include "holding/outcome.hpp"
#include "manager/exchanging.hpp"
#include "manager/free_wait.hpp"
#include "manager/named_locks.hpp"
#include "manager/named_permits.hpp"
#include "manager/recording.hpp"
#include "manager/releasing.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/quarantine.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;

namespace {

// After the closer's own deadline, for its report.
constexpr auto closing_grace = 200ms;

}  // namespace

manager::manager(std::shared_ptr<backend::source> const& source, manager_options options)
    : engine_(std::make_unique<engine>(source, std::move(options))),
      dispatcher_(std::make_unique<dispatcher>(*engine_)),
      source_is_the_programs_(source->uses_the_programs()) {}

std::shared_ptr<manager> manager::make(std::shared_ptr<backend::source> const& source,
                                       manager_options options) {
  if (source->uses_the_programs()) options.queue_connections = 0;  // the program might not have enough
  std::shared_ptr<manager> made(new manager(source, std::move(options)));
  closer::of_this_process().know(made, *source);
  return made;
}

manager::~manager() {
  if (!forked()) return;
  (void)dispatcher_.release();
  (void)engine_.release();
}

void manager::refuse_if_forked() const {
  if (forked())
    throw error(errc::forked,
                "this lock_manager was made before fork(): its connections and locks are the parent's; "
                "make another one in the child");
}

lock_spec manager::spec(std::string name, mutex_options options, bool recursive,
                        std::optional<permit_spec> permit, bool votes) const {
  return {std::move(name),
          std::move(options),
          recursive,
          engine_->options.strategy,
          engine_->database.sql(),
          permit,
          votes};
}

std::vector<lock_spec> manager::specs(std::vector<std::string> names, mutex_options const& options) const {
  auto const refuse = [](errc why, std::string const& message) { throw error(why, message); };
  if (names.empty())
    refuse(errc::invalid_argument, "no names were given: several locks at once are at least one");
  std::sort(names.begin(), names.end());
  if (auto const twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    refuse(errc::invalid_argument, fmt::format("'{}' is there twice: a lock can be taken only once", *twice));
  std::vector<lock_spec> all;
  all.reserve(names.size());
  for (auto& name : names) all.push_back(spec(std::move(name), options, false));
  auto const how = all.front().strategy;
  auto const most = engine_->strategies.of(how).most_at_once();
  if (most <= 1)
    refuse(errc::unsupported, fmt::format("{} can't take several locks at once: use lease", to_string(how)));
  if (all.size() > most)
    refuse(errc::invalid_argument,
           fmt::format("{} names: at most {} can be taken at once", all.size(), most));
  return all;
}

void manager::refuse_if_closed() const {
  refuse_if_forked();
  if (engine_->closing.stop_requested())
    throw error(errc::closed, "the lock_manager was destroyed, or the process ends");
}

base::calls::scope manager::begin_call() const {
  refuse_if_closed();
  return base::calls::scope(engine_->under_way);
}

void manager::connect() {
  auto const here = begin_call();
  (void)engine_->pool_of(engine_->options.strategy).borrow(engine_->reply_deadline());
}

manager::one_taken manager::acquire(lock_spec const& spec, wait_policy p, std::stop_token stop) {
  auto came = acquire_all(std::span(&spec, 1), p, std::move(stop));
  return {came.won.empty() ? nullptr : std::move(came.won.front()), came.why, std::move(came.holder)};
}

taken manager::acquire_all(std::span<lock_spec const> specs, wait_policy const& p, std::stop_token stop) {
  refuse_if_forked();
  bool const dispatches =
      engine_->dispatches && specs.size() == 1 && p.quorum == nullptr && !base::inside_the_library();
  base::calls::scope const here(engine_->under_way);
  auto const began = boot_clock::now();
  auto came = [&] {
    if (dispatches) return dispatched(specs.front(), p, std::move(stop));
    waiting::thread_bell bell;
    lock_call call(*engine_, specs, p, std::move(stop), bell);
    return drive(call, bell);
  }();
  if (!dispatches) tell_refused(*engine_, specs, came, began);
  return came;
}

// As a program that has no loop, but waits.
taken manager::dispatched(lock_spec const& spec, wait_policy const& p, std::stop_token stop) {
  struct outcome {
    std::exception_ptr failed;
    taken came;
  };
  class to_promise final : public receiver {
   public:
    explicit to_promise(std::promise<outcome> p) : promise_(std::move(p)) {}
    void receive(std::exception_ptr failed, std::shared_ptr<manager>, taken came) override {
      promise_.set_value({std::move(failed), std::move(came)});
    }

   private:
    std::promise<outcome> promise_;
  };
  std::promise<outcome> promise;
  auto future = promise.get_future();
  try {
    acquire_later({spec}, p, std::move(stop), on_library_thread,
                  std::make_unique<to_promise>(std::move(promise)));
  } catch (error const& e) {
    if (e.reason() != errc::closed) throw;
    return {.why = acquire_status::cancelled};  // it ended after the caller's call began
  }
  try {
    auto got = future.get();
    if (got.failed) std::rethrow_exception(got.failed);
    return std::move(got.came);
  } catch (std::future_error const&) {  // a hook of this call has ended the manager: nothing is posted then
    return {.why = acquire_status::cancelled};
  }
}

void manager::acquire_later(std::vector<lock_spec> specs, wait_policy p, std::stop_token stop, executor where,
                            std::unique_ptr<receiver> whom) {
  refuse_if_closed();
  auto what = std::make_shared<order const>(order{std::move(specs), p, std::move(stop)});
  auto d = std::make_unique<delivery>(shared_from_this(), std::move(where), std::move(whom), std::move(what));
  dispatcher_->start(d);
}

void manager::wait_until_free_later(lock_spec const& spec,
                                    std::optional<std::chrono::steady_clock::time_point> deadline,
                                    std::stop_token stop, executor where,
                                    std::unique_ptr<async_handler<bool>> whom) {
  refuse_if_closed();
  auto answer = std::make_unique<answer_for<bool>>(shared_from_this(), std::move(where), std::move(whom));
  dispatcher_->start(std::make_unique<async_free_wait>(*dispatcher_, *engine_, spec, deadline,
                                                       std::move(answer), std::move(stop)));
}

void manager::pause_later(boot_time_point until, std::stop_token stop, executor where,
                          std::unique_ptr<async_handler<bool>> whom) {
  refuse_if_closed();
  auto const at = std::chrono::steady_clock::now() +
                  std::max<std::chrono::nanoseconds>(until - boot_clock::now(), std::chrono::nanoseconds(0));
  auto answer = std::make_unique<answer_for<bool>>(shared_from_this(), std::move(where), std::move(whom));
  dispatcher_->start(
      std::make_unique<async_pause>(*dispatcher_, *engine_, at, std::move(answer), std::move(stop)));
}

void manager::wait_for_end_later(std::shared_ptr<holding::hold> const& h, std::stop_token stop,
                                 executor where, std::unique_ptr<loss_handler> whom) {
  refuse_if_closed();
  auto answer =
      std::make_unique<async_end_wait::answer_type>(shared_from_this(), std::move(where), std::move(whom));
  dispatcher_->start(
      std::make_unique<async_end_wait>(*dispatcher_, *engine_, h, std::move(answer), std::move(stop)));
}

void manager::release_later(std::shared_ptr<holding::hold> const& h) noexcept {
  if (!forked()) dispatcher_->release(h);
}

void manager::release_later(std::vector<std::shared_ptr<holding::hold>> all) noexcept {
  if (!forked()) dispatcher_->release(std::move(all));
}

bool manager::extend(std::shared_ptr<holding::hold> const& h, std::chrono::milliseconds duration) {
  refuse_if_forked();
  base::calls::scope const here(engine_->under_way);
  if (duration <= 0ms || duration > std::chrono::hours(24 * 366))
    throw error(errc::invalid_argument,
                fmt::format("extending a lock by {} ms: 1 ms to 366 days", duration.count()));
  auto const& f = h->facts();
  if (!holding::traits_of(f).has_expiry)
    throw error(errc::unsupported, fmt::format("'{}' is held with {}, which has no expiry to extend", f.name,
                                               to_string(f.strategy)));
  if (!h->share_term() || !h->valid() || report_if_gone(h)) return false;
  try {
    return extend_row(h, duration, engine_->reply_deadline());
  } catch (error const&) {
    if (report_if_gone(h)) return false;
    throw;
  }
}

bool manager::report_if_gone(std::shared_ptr<holding::hold> const& h) {
  if (!engine_->database.gone(h->facts().server)) return false;
  engine_->expiries.report_lost(h, loss_reason::row_gone);
  return true;
}

bool manager::extend_row(std::shared_ptr<holding::hold> const& h, std::chrono::milliseconds duration,
                         boot_time_point deadline) {
  auto const& f = h->facts();
  auto loan = engine_->pool.borrow(deadline);
  if (duration > f.ttl) strategies::raise_reach(*loan, engine_->database.statements(), duration, deadline);
  auto const sent_at = boot_clock::now();
  h->may_last(deadline + std::chrono::nanoseconds(duration));
  bool const extended = sessions::retry_deadlocks(engine_->events, f.name, deadline, [&] {
    return engine_->tables.of(f.strategy).extend(*loan, {f.name, f.term}, duration, deadline);
  });
  if (extended) {
    if (h->prolong(sent_at, duration)) {
      h->tell_trust(engine_->events);
      return true;
    }
    if (engine_->expiries.report_lost(h, h->why_expired())) releasing::give_back_lost(*engine_, *h);
    return false;
  }
  auto const seen = holding::outcome_of(engine_->tables, *loan, *h, deadline);
  if (seen.lost) engine_->expiries.report_lost(h, *seen.lost);
  if (seen.lost || seen.done) return false;
  throw error(errc::conflict,
              fmt::format("'{}' could not be extended just now; it is held as before", f.name));
}

bool manager::set_note(std::shared_ptr<holding::hold> const& h, std::string const& note) {
  refuse_if_forked();
  base::calls::scope const here(engine_->under_way);
  base::require_text("the note", note, base::longest_note);
  auto const& f = h->facts();
  if (!holding::traits_of(f).has_expiry)
    throw error(errc::unsupported,
                fmt::format("'{}' is held with {}, which writes no note", f.name, to_string(f.strategy)));
  // Exposed: no successor may get a term whose row and facts differ.
  if (!h->share_term() || !h->valid() || report_if_gone(h)) return false;
  try {
    return set_row_note(h, note);
  } catch (error const&) {
    if (report_if_gone(h)) return false;
    throw;
  }
}

bool manager::set_row_note(std::shared_ptr<holding::hold> const& h, std::string const& note) {
  auto const& f = h->facts();
  auto const deadline = engine_->reply_deadline();
  auto loan = engine_->pool.borrow(deadline);
  if (sessions::retry_deadlocks(engine_->events, f.name, deadline, [&] {
        return engine_->tables.of(f.strategy).set_note(*loan, {f.name, f.term}, note, deadline);
      }))
    return true;
  if (auto const seen = holding::outcome_of(engine_->tables, *loan, *h, deadline); seen.lost)
    engine_->expiries.report_lost(h, *seen.lost);
  return false;
}

bool manager::record(std::shared_ptr<holding::hold> const& h, std::chrono::milliseconds keep_for,
                     std::string const& result) {
  auto const here = begin_call();
  return recording::record(*engine_, h, keep_for, result);
}

bool manager::was_recorded(std::shared_ptr<holding::hold> const& h) {
  auto const here = begin_call();
  return recording::was_recorded(*engine_, h);
}

release_result manager::release(std::shared_ptr<holding::hold> const& h) noexcept {
  if (forked()) return release_result::already_lost;
  if (!h->unshare()) return release_result::released;
  auto what = release_result::released;
  if (!can_release(what)) return what;
  base::calls::scope const here(engine_->under_way);
  base::end_time_spent const spent;
  return releasing::give_back(*engine_, h,
                              boot_clock::now() + base::time_left(engine_->options.release_timeout));
}

release_result manager::release_all(std::vector<std::shared_ptr<holding::hold>> holds) noexcept {
  if (forked()) return release_result::already_lost;
  std::erase_if(holds, [](auto const& h) { return !h->unshare(); });
  auto what = release_result::released;
  if (holds.empty() || !can_release(what)) return what;
  base::calls::scope const here(engine_->under_way);
  base::end_time_spent const spent;
  return releasing::give_back_all(*engine_, std::move(holds),
                                  boot_clock::now() + base::time_left(engine_->options.release_timeout));
}

bool manager::can_release(release_result& what) const noexcept {
  // exit() in a hook, or in a signal handler: thread_local handles end before rowlock knows of it.
  if (engine_->under_way.interrupted() || (base::process_ends() && base::inside_the_library())) {
    what = release_result::in_doubt;
    return false;
  }
  if (!engine_->closing.stop_requested()) return true;
  what = release_result::already_lost;
  return false;
}

// A flushed commit keeps all commits before it.
void manager::flush() {
  auto const deadline = engine_->reply_deadline();
  auto loan = engine_->pool.borrow(deadline);
  if (loan->facts().flushes_less)
    loan->execute(engine_->database.statements().at("flush_committed"), {}, deadline);
}

std::optional<detached_lock> manager::detach(std::shared_ptr<holding::hold> const& h) {
  auto const here = begin_call();
  auto const& f = h->facts();
  if (!holding::traits_of(f).has_expiry)
    throw error(errc::unsupported,
                fmt::format("'{}' is used with {}, which ends with its session: it can't be detached", f.name,
                            to_string(f.strategy)));
  if (!h->unshare() && h->share())
    throw error(errc::invalid_argument,
                fmt::format("'{}': other handles share this lock, and would be left without it", f.name));
  if (h->held() && !h->valid()) engine_->expiries.report_lost(h, h->why_expired());
  if (engine_->database.sql().flushes_less && h->held() && !f.needs_flush()) flush();
  bool const ours = h->begin_release();
  engine_->renewals.forget(*h);
  engine_->expiries.forget(*h);
  if (!ours) {
    releasing::give_back_lost(*engine_, *h);
    return std::nullopt;
  }
  h->end_release();
  return detached_lock{f.name, f.term, f.token, f.strategy};
}

std::vector<lock_info> manager::list(list_options const& options) {
  auto const here = begin_call();
  return named_locks::list(*engine_, options);
}

std::optional<lock_info> manager::find(std::string const& name) {
  auto const here = begin_call();
  return named_locks::find(*engine_, name);
}

bool manager::revoke(std::string const& name, revoke_mode mode, term_id const& only) {
  auto const here = begin_call();
  return named_locks::revoke(*engine_, name, mode, only);
}

std::shared_ptr<holding::hold> manager::exchange(std::shared_ptr<holding::hold> const& h,
                                                 permit_spec const& wanted) {
  auto const here = begin_call();
  waiting::thread_bell bell;
  exchanging call(*engine_, h, wanted);
  return drive(call, bell);
}

void manager::set_limit(lock_spec const& spec, std::int64_t limit) {
  auto const here = begin_call();
  named_permits::set_limit(*engine_, spec, limit);
}

std::optional<std::int64_t> manager::free_units(lock_spec const& spec) {
  auto const here = begin_call();
  return named_permits::free_units(*engine_, spec);
}

bool manager::wait_until_free(lock_spec const& spec,
                              std::optional<std::chrono::steady_clock::time_point> deadline,
                              std::stop_token stop) {
  auto const here = begin_call();
  waiting::thread_bell bell;
  free_wait call(*engine_, spec, deadline, std::move(stop), bell);
  return drive(call, bell);
}

bool manager::release(detached_lock const& lock) {
  auto const here = begin_call();
  return named_locks::release(*engine_, lock);
}

bool manager::renew(detached_lock const& lock) {
  auto const here = begin_call();
  return named_locks::renew(*engine_, lock);
}

void manager::close() noexcept {
  if (forked()) return;
  auto& c = closing_;
  auto const& o = engine_->options;
  base::end_time_spent const spent;
  auto const time = base::time_left(o.release_timeout);
  if (!c.asked.exchange(true)) {
    c.by = std::this_thread::get_id();
    c.calls_of_by = engine_->under_way.in(base::calls::stack_of_this_thread());
    c.time = time;
    c.whom = shared_from_this();
    if (!closer::of_this_process().ask(c)) {  // nothing was ever taken
      c.whom.reset();
      shut_down();
      if (source_is_the_programs_)
        engine_->under_way.wait_until_gone(c.calls_of_by, boot_clock::now() + o.reply_timeout);
      c.ended.set();
    }
  }
  auto const deadline = boot_clock::now() + time + closing_grace;
  // A callback does not wait for threads: two managers might each be destroyed by the other's callback.
  if (base::inside_the_library() && !base::process_ends())
    base::wait_for(c.given_back, deadline);
  else if (!base::wait_for(c.ended, deadline) && source_is_the_programs_)
    base::wait_for(c.ended, deadline + o.reply_timeout);
  engine_->events.mute();
  dispatcher_->mute(deadline);
}

void manager::close_later(executor where, std::unique_ptr<async_handler<bool>> whom) {
  refuse_if_closed();
  closer::of_this_process().get_ready();
  auto answer = std::make_unique<answer_for<bool>>(shared_from_this(), std::move(where), std::move(whom));
  auto& c = closing_;
  if (c.asked.exchange(true)) throw error(errc::closed, "the lock_manager ends already");
  to_tell_ = std::move(answer);
  c.by = std::this_thread::get_id();
  c.calls_of_by = engine_->under_way.in(base::calls::stack_of_this_thread());
  c.time = engine_->options.release_timeout;
  c.whom = shared_from_this();
  (void)closer::of_this_process().ask(c);
}

void manager::refuse_if_ended() const {
  refuse_if_forked();
  if (!base::process_ends()) refuse_if_closed();
}

void manager::say_closed() const {
  auto const& o = engine_->options;
  base::event const never;
  // Longer than close() takes, so that the thread that ends the process next can begin.
  auto const closing_takes =
      o.release_timeout + closing_grace + (source_is_the_programs_ ? o.reply_timeout : 0ms);
  base::wait_for(never, boot_clock::now() + closing_takes + o.release_timeout);
  if (base::process_ends()) base::wait_for(never, boot_clock::now() + closing_takes + o.reply_timeout);
  refuse_if_closed();
  throw error(errc::closed, "the lock_manager has ended");
}

void manager::shut_down() noexcept {
  auto const deadline = boot_clock::now() + closing_.time;
  engine_->closing.request_stop();
  for (auto const& h : engine_->expiries.close())
    if (releasing::give_back(*engine_, h, deadline) == release_result::already_lost)
      releasing::give_back_lost(*engine_, *h, deadline);
  engine_->under_way.wait_until_gone(closing_.calls_of_by, deadline);
  bool const none_left = dispatcher_->end(deadline, closing_.by);
  closing_.given_back.set();
  end_threads(deadline, closing_.by);
  bool const all_left = none_left && dispatcher_->wait_for_continuations(deadline, closing_.by) &&
                        engine_->under_way.wait_until_gone(never_leave(), deadline);
  if (all_left) end_sessions();
  // After `ended` the program can destroy objects that the source uses.
  if (!all_left && source_is_the_programs_) return;
  tell_closed(all_left);
  closing_.ended.set();
}

// Before `ended`: then the destructor refuses what is not posted. The thread for continuations might have
// ended, so the closer's is the library's thread here.
void manager::tell_closed(bool all_left) noexcept {
  auto answer = std::move(to_tell_);
  if (!answer) return;
  answer->bring(nullptr, all_left);
  if (!answer->where().is_library_thread()) return dispatcher_->post(std::move(answer));
  posted what(std::move(answer));
  what();
}

// Calls of the thread that ends the process in a hook or policy never return.
int manager::never_leave() const noexcept { return base::process_ends() ? closing_.calls_of_by : 0; }

void manager::finish() noexcept {
  // Late attempts release their locks.
  (void)dispatcher_->end(base::process_ends() ? boot_clock::now() : boot_time_point::max(), {});
  engine_->under_way.wait_until_gone(never_leave(), boot_time_point::max());
  // A thread of the manager that ends the process never ends itself.
  end_threads(boot_clock::now() + engine_->options.release_timeout,
              base::process_ends_by(closing_.by) ? closing_.by : std::thread::id{});
  dispatcher_->stop(base::process_ends_by(closing_.by) ? closing_.by : std::thread::id{});
  end_sessions();
  tell_closed(true);
  closing_.ended.set();
}

void manager::end_threads(boot_time_point deadline, std::thread::id spare) noexcept {
  engine_->renewals.stop(deadline, spare);
  engine_->pings.stop(spare);
  engine_->expiries.stop(spare);
}

void manager::end_sessions() noexcept {
  engine_->traffic.stop(closing_.by);
  engine_->pool.close();
  engine_->session_pool.close();
  engine_->wait_queues.close();
  engine_->database.close();
}

}  // namespace rowlock::managing
