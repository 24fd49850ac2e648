#include "manager/dispatcher.hpp"

#include <algorithm>
#include <rowlock/error.hpp>
#include <utility>

#include "base/process_end.hpp"
#include "base/thread_name.hpp"
#include "manager/closer.hpp"
#include "manager/releasing.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using must = base::task_queue::kind;

namespace {

thread_local bool is_posting = false;

/// Half of the connections, so that neither takes nor releases keep the others waiting.
std::size_t half(int connections) { return static_cast<std::size_t>(std::max(1, connections / 2)); }

std::size_t at_least_one(int n) { return static_cast<std::size_t>(std::max(1, n)); }

}  // namespace

dispatcher::dispatcher(engine& e)
    : engine_(e),
      questions_("rowlock-ask", at_least_one(e.database.connections() - e.database.connections() / 2)),
      releases_("rowlock-leave", half(e.database.connections())),
      standers_("rowlock-stand", at_least_one(e.options.queue_connections)),
      row_locks_("rowlock-row", at_least_one(e.options.row_lock_connections)),
      continuations_("rowlock-go-on", 1) {}

dispatcher::~dispatcher() { stop({}); }

bool dispatcher::posts_here() noexcept { return is_posting; }

// After end() only for what a call that is counted has left.
void dispatcher::count_one(bool also_at_end) {
  std::lock_guard const guard(mutex_);
  if (ended_ && !(also_at_end && open_ > 0))
    throw error(errc::closed, "the lock_manager was destroyed, or the process ends");
  if (!thread_.joinable()) thread_ = std::jthread([this] { serve(); });
  ++open_;
}

void dispatcher::one_less() noexcept {
  std::lock_guard const guard(mutex_);
  --open_;
  less_.notify_all();
}

void dispatcher::start(std::unique_ptr<delivery>& d) {
  closer::of_this_process().get_ready();
  auto call = std::make_unique<async_take>(*this, engine_, d->what());
  count_one(false);
  call->deliver_by(std::move(d));
  list(*call.release());
}

void dispatcher::start(std::unique_ptr<async_call> c) {
  closer::of_this_process().get_ready();
  count_one(false);
  list(*c.release());
}

template <class GiveBack, class Leave>
void dispatcher::release_by_worker(GiveBack const& gives_back, Leave const& leaves) noexcept {
  bool counted = false;
  try {
    count_one(true);
    counted = true;
    auto const release = [this, gives_back] {
      base::serving const serves;
      {
        base::calls::scope const here(engine_.under_way);
        gives_back(boot_clock::now() + engine_.options.release_timeout);
      }
      one_less();
    };
    if (releases_.run(release, must::must_be_run)) return;
  } catch (std::exception const&) {  // ended, or no memory or thread
  }
  leaves();
  if (counted) one_less();
}

void dispatcher::release(std::shared_ptr<holding::hold> const& h, bool unseen) noexcept {
  if (!h->unshare()) return;
  if (unseen) h->forget_at_least();
  release_by_worker([this, h](boot_time_point until) { releasing::give_back(engine_, h, until); },
                    [&] { releasing::leave_behind(engine_, h); });
}

void dispatcher::release(std::vector<std::shared_ptr<holding::hold>> all, bool unseen) noexcept {
  if (all.size() == 1) return release(all.front(), unseen);
  std::erase_if(all, [](auto const& h) { return !h->unshare(); });
  if (all.empty()) return;
  for (auto const& h : all)
    if (unseen) h->forget_at_least();
  auto const leaves = [&] {
    for (auto const& h : all) releasing::leave_behind(engine_, h);
  };
  try {
    release_by_worker([this, all](boot_time_point until) { releasing::give_back_all(engine_, all, until); },
                      leaves);
  } catch (std::exception const&) {  // no memory for the copy
    leaves();
  }
}

void dispatcher::run(std::function<void()> asks, std::unique_ptr<continuation> answer, bool releases) {
  closer::of_this_process().get_ready();
  auto const mine = std::make_shared<std::unique_ptr<continuation>>(std::move(answer));
  auto const runs = [this, mine, asks = std::move(asks)] {
    base::serving const serves;
    asks();  // a call of the manager's, which counts itself
    post(std::move(*mine));
    one_less();
  };
  count_one(false);
  try {
    auto& by = releases ? releases_ : questions_;
    if (by.run(runs, must::must_be_run)) return;
    throw error(errc::failed, "there is no thread that could ask the database");
  } catch (...) {
    one_less();
    throw;
  }
}

void dispatcher::list(async_call& c) noexcept {
  auto* before = come_.load(std::memory_order_relaxed);
  do {
    c.next_ = before;
  } while (!come_.compare_exchange_weak(before, &c, std::memory_order_release, std::memory_order_relaxed));
  if (before == nullptr) wake_.set();
}

void dispatcher::serve() {
  base::name_thread("rowlock-calls");
  base::serving const here;
  while (!stopped_) {
    async_call* in_order = nullptr;
    for (auto* one = come_.exchange(nullptr, std::memory_order_acquire); one != nullptr;) {
      auto* const next = one->next_;
      one->next_ = in_order;
      in_order = one;
      one = next;
    }
    while (in_order != nullptr) {
      auto& one = *in_order;
      in_order = one.next_;
      look_at(one);
    }
    auto const next = std::min(run_timers(), watch_names());
    if (next == clock::time_point::max())
      wake_.wait();
    else
      (void)wake_.wait_for(std::max<std::chrono::nanoseconds>(next - clock::now(), 0ns));
  }
}

// Only those that are due now: one that is due again at once must not keep the others from their answers.
dispatcher::clock::time_point dispatcher::run_timers() noexcept {
  auto const now = clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    auto& due = *timers_.begin()->second;
    timers_.erase(timers_.begin());
    step(due);
  }
  return timers_.empty() ? clock::time_point::max() : timers_.begin()->first;
}

void dispatcher::rest(async_call& c, pause const& wait) {
  c.place_ = async_call::place::pausing;
  auto until = wait.until;
  if (wait.watched.name != nullptr) {
    auto const mine = watch_.add(c, wait.watched, wait.until.value_or(clock::time_point::max()));
    c.watched_ = mine.entry;
    until = mine.until;
  }
  if (until) c.timer_ = timers_.emplace(*until, &c);
}

void dispatcher::stop_watching(async_call& c) noexcept {
  if (auto const watched = std::exchange(c.watched_, std::nullopt)) watch_.remove(*watched);
}

// After the timers: a call that begins its rest there is watched from now on. @return when it is due again
dispatcher::clock::time_point dispatcher::watch_names() noexcept try {
  auto const now = clock::now();
  auto const found = watch_.findings_of_look(now);
  for (auto* const one : found.may_try) {
    one->as_take()->call().end_rest();
    timers_.erase(one->timer_);
    step(*one);
  }
  if (found.stopped_working)
    for (auto const& [name, one] : watch_.all()) {
      timers_.erase(one.call->timer_);
      std::chrono::duration<double> const spread(waiting::random_part());
      auto const until = std::max(one.until, now + std::chrono::duration_cast<clock::duration>(spread));
      one.call->timer_ = timers_.emplace(until, one.call);
    }
  if (!engine_.closing.stop_requested())
    if (auto const look = watch_.next_look(now)) ask(look);
  return watch_.due();
} catch (std::exception const&) {  // no memory: the calls go on by their timers
  return clock::now() + 1s;
}

void dispatcher::ask(std::shared_ptr<name_look> const& look) {
  auto const asks = [this, look] {
    base::serving const serves;
    {
      base::calls::scope const here(engine_.under_way);
      look->ask(engine_);
    }
    wake_.set();
    one_less();
  };
  bool counted = false;
  try {
    count_one(true);
    counted = true;
    if (questions_.run(asks, must::must_be_run)) return;
  } catch (std::exception const&) {  // no memory or thread
  }
  watch_.drop_look();
  if (counted) one_less();
}

void dispatcher::look_at(async_call& c) noexcept {
  auto const bits = c.bits_.exchange(0, std::memory_order_acq_rel);
  switch (c.place_) {
    case async_call::place::fresh:
      if (auto* const take = c.as_take(); take && connecting_ != nullptr && stands_behind(*take)) return;
      return step(c);
    case async_call::place::asking:
      if ((bits & async_call::answered) != 0)
        return connecting_ != nullptr && connecting_ == c.as_take() ? connected(*connecting_) : step(c);
      // The question goes on. What it brings is given back.
      if (c.stopped()) (void)send(c);
      return;
    case async_call::place::pausing:
      if (c.timer_ != timers_.end()) timers_.erase(c.timer_);
      return step(c);
    case async_call::place::ended:
      return finish(c);
  }
}

void dispatcher::step(async_call& c) noexcept {
  c.timer_ = timers_.end();
  stop_watching(c);
  try {
    if (!c.has_ended_ && !c.failed_ && goes_on(c)) return;
  } catch (...) {
    c.failed_ = std::current_exception();
  }
  stop_watching(c);  // without memory for its timer
  c.has_ended_ = true;
  if (auto* const take = c.as_take(); take && take->has_leftovers()) return clear_up(c);
  finish(c);
}

bool dispatcher::goes_on(async_call& c) {
  auto const need = c.next();
  if (auto const* const what = std::get_if<question>(&need)) {
    c.place_ = async_call::place::asking;
    ask(c, *what);
    return true;
  }
  if (auto const* const wait = std::get_if<pause>(&need)) {
    rest(c, *wait);
    return true;
  }
  return false;
}

// A call that finds no free place in the server is told so, and comes back.
void dispatcher::ask(async_call& c, question const& what) noexcept {
  auto* const take = c.as_take();
  if (what.what == question::kind::connect && connects_already(*take)) return;
  bool const waits_for_row = what.what == question::kind::attempt && take->its_strategy().waits_in_server;
  bool const waits = waits_for_row || what.what == question::kind::stand;
  bool const gives = what.what == question::kind::leave || what.what == question::kind::give_back;
  auto& by = waits_for_row ? row_locks_ : waits ? standers_ : gives ? releases_ : questions_;
  auto const asks = [this, &c] {
    base::serving const serves;
    base::calls::scope const here(engine_.under_way);
    try {
      c.ask();
    } catch (...) {
      c.failed_ = std::current_exception();
    }
    c.tell(async_call::answered);
  };
  try {
    if (by.run(asks, waits ? must::may_be_dropped : must::must_be_run, 0)) return;
    if (!waits) throw error(errc::failed, "there is no thread that could ask the database");
    take->call().find_no_room();
  } catch (...) {
    c.failed_ = std::current_exception();
  }
  c.tell(async_call::answered);
}

// One for all. Otherwise several workers would do it, and the calls would lose their order.
bool dispatcher::connects_already(async_take& c) noexcept {
  if (connecting_ != nullptr) return stands_behind(c);
  connecting_ = &c;
  return false;
}

// Also a call that has asked nothing yet: it must not overtake those that wait for the connection.
bool dispatcher::stands_behind(async_take& c) noexcept try {
  wait_for_connect_.push_back(&c);
  static_cast<async_call&>(c).place_ = async_call::place::asking;
  return true;
} catch (std::exception const&) {  // no memory: it asks, too
  return false;
}

void dispatcher::connected(async_take& c) noexcept {
  connecting_ = nullptr;
  auto const others = std::exchange(wait_for_connect_, {});
  if (!static_cast<async_call&>(c).failed_)
    for (auto* const one : others) one->call().share_answer(c.call());
  step(c);
  for (auto* const one : others) step(*one);
}

// What a call that has ended would leave in the server: a worker closes it.
void dispatcher::clear_up(async_call& c) noexcept {
  (void)send(c);
  c.place_ = async_call::place::asking;
  auto const clears = [this, &c] {
    base::serving const serves;
    base::calls::scope const here(engine_.under_way);
    c.end();
    c.tell(async_call::answered);
  };
  try {
    if (releases_.run(clears, must::must_be_run)) return;
  } catch (std::exception const&) {  // no memory
  }
  clears();
}

void dispatcher::finish(async_call& c) noexcept {
  c.place_ = async_call::place::ended;
  c.end();
  if ((c.bits_.load(std::memory_order_acquire) & async_call::listed) != 0) return;  // it comes once more
  std::unique_ptr<async_call> const last(&c);
  auto* const take = c.as_take();
  if (!send(c) && take != nullptr) release(take->unseen(), true);
  one_less();
}

bool dispatcher::send(async_call& c) noexcept {
  auto a = c.answer(std::exchange(c.failed_, nullptr));
  if (!a) return false;
  post(std::move(a));
  return true;
}

void dispatcher::post(std::unique_ptr<continuation> d) noexcept {
  if (base::process_ends()) return (void)d.release();  // the objects of the executor may be gone
  auto const where = d->where();                       // it outlives its post
  if (where.is_library_thread()) return run_by_itself(std::move(d));
  posted what(std::move(d));  // refused if it is destroyed
  {
    std::lock_guard const guard(mutex_);
    if (muted_) return;
    ++posting_;
  }
  is_posting = true;
  try {
    where.post(std::move(what));
  } catch (...) {  // refused, whatever it throws
  }
  is_posting = false;
  std::lock_guard const guard(mutex_);
  --posting_;
  less_.notify_all();
}

void dispatcher::run_by_itself(std::unique_ptr<posted::work> w) noexcept {
  posted what(std::move(w));
  bool counted = false;
  try {
    auto const held = std::make_shared<posted>(std::move(what));
    auto const runs = [this, held] {
      base::serving const serves;
      (*held)();
      std::lock_guard const guard(mutex_);
      --going_on_;
      less_.notify_all();
    };
    std::unique_lock lock(mutex_);
    if (muted_) return;
    ++going_on_;
    counted = true;
    lock.unlock();
    if (continuations_.run(runs, must::must_be_run)) return;
  } catch (std::exception const&) {  // no memory
  }
  if (!counted) return;
  std::lock_guard const guard(mutex_);
  --going_on_;
  less_.notify_all();
}

bool dispatcher::wait_until(boot_time_point deadline, std::unique_lock<std::mutex>& lock,
                            std::size_t const& count, std::size_t most) noexcept {
  auto const few = [&] { return count <= most; };
  if (deadline != boot_time_point::max())
    return less_.wait_for(lock, std::max<std::chrono::nanoseconds>(deadline - boot_clock::now(), 0ns), few);
  less_.wait(lock, few);
  return true;
}

bool dispatcher::end(boot_time_point deadline, std::thread::id by) noexcept {
  auto const workers = {&questions_, &releases_, &standers_, &row_locks_};
  auto const own = std::count_if(workers.begin(), workers.end(), [&](auto* w) { return w->has(by); });
  std::unique_lock lock(mutex_);
  ended_ = true;
  if (by != std::thread::id() && thread_.get_id() == by) return open_ == 0;  // nothing is stepped meanwhile
  return wait_until(deadline, lock, open_, static_cast<std::size_t>(own)) && open_ == 0;
}

bool dispatcher::wait_for_continuations(boot_time_point deadline, std::thread::id by) noexcept {
  bool const own = continuations_.has(by);
  std::unique_lock lock(mutex_);
  return wait_until(deadline, lock, going_on_, own ? 1 : 0) && going_on_ == 0;
}

void dispatcher::mute(boot_time_point deadline) noexcept {
  std::unique_lock lock(mutex_);
  muted_ = true;
  if (!is_posting) (void)wait_until(deadline, lock, posting_, 0);
}

void dispatcher::stop(std::thread::id spare) noexcept {
  stopped_ = true;
  wake_.set();
  for (auto* const each : {&questions_, &releases_, &standers_, &row_locks_, &continuations_})
    each->stop(spare);
  std::unique_lock lock(mutex_);
  if (!thread_.joinable() || thread_.get_id() == spare) return;
  auto ending = std::move(thread_);
  lock.unlock();
  ending.join();
}

}  // namespace rowlock::managing
