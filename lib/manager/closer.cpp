#include "manager/closer.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <typeinfo>

#include "base/per_process.hpp"
#include "base/process_end.hpp"
#include "base/thread_name.hpp"
#include "manager/manager.hpp"

namespace rowlock::managing {
namespace {

using namespace std::chrono_literals;

// After the deadline of the work, for its report.
constexpr auto grace = 200ms;

void at_exit() {
  closer::of_this_process().close_all();
  base::drivers_end();
}

}  // namespace

closer& closer::of_this_process() { return base::per_process<closer>(); }

void closer::know(std::shared_ptr<manager> const& m, backend::source const& source) {
  std::lock_guard const guard(mutex_);
  // One handler for each kind of driver, registered after the driver's own.
  bool const is_new = sources_.emplace(typeid(source), source.sql().name).second;
  if (is_new && std::atexit(at_exit) != 0)
    throw std::runtime_error("no handler for the end of the process can be registered");
  if (known_.size() == known_.capacity())
    known_.erase(std::remove_if(known_.begin(), known_.end(), [](auto const& w) { return w.expired(); }),
                 known_.end());
  known_.push_back(m);
  auto const& o = m->parts().options;
  // The program's function connects without a deadline. A library below would abort if the process ended
  // meanwhile.
  std::chrono::nanoseconds const time =
      o.release_timeout + (source.uses_the_programs() ? o.reply_timeout : std::chrono::milliseconds(0));
  longest_ = std::max(longest_.load(), time.count());
}

void closer::get_ready() {
  if (ready_) return;
  base::watch_for_process_end();
  std::lock_guard const guard(mutex_);
  if (ready_) return;
  thread_ = std::jthread([this] { run(); });
  ready_ = true;
}

bool closer::ask(closing& c) noexcept {
  if (!ready_) return false;
  c.next = asked_.load();
  while (!asked_.compare_exchange_weak(c.next, &c)) {
  }
  wake_.set();
  return true;
}

void closer::close_all() noexcept {
  if (!ready_) return;
  base::end_time_spent const spent;
  all_closed_.clear();
  all_by_ = std::this_thread::get_id();
  calls_of_all_by_ = base::calls::stack_of_this_thread();
  all_asked_ = true;
  wake_.set();
  base::wait_for(all_closed_,
                 boot_clock::now() + base::time_left(std::chrono::nanoseconds(longest_)) + grace);
}

void closer::run() {
  base::name_thread("rowlock-close");
  for (;;) {
    base::wait_for(wake_, boot_time_point::max());
    wake_.clear();
    begin_asked();
    if (all_asked_.exchange(false)) begin_all();
    join_done();
  }
}

void closer::begin_asked() {
  for (auto* c = asked_.exchange(nullptr); c != nullptr;) {
    auto* const next = c->next;
    begin(*c);
    c = next;
  }
}

// One thread for each manager, because a dead server costs a manager all of its time.
void closer::begin(closing& c) {
  auto const close = [&c] {
    c.whom->shut_down();
    c.whom->finish();
    // At the end of the process a thread might still use a destroyed static object.
    if (!base::process_ends()) auto const last = std::move(c.whom);
  };
  try {
    auto& w = workers_.emplace_back();
    w.thread = std::jthread([this, &w, close] {
      base::name_thread("rowlock-close");
      base::serving const here;
      close();
      w.done = true;
      wake_.set();
    });
  } catch (std::exception const&) {  // no thread or memory
    if (!workers_.empty() && !workers_.back().thread.joinable()) workers_.pop_back();
    close();
  }
}

void closer::begin_all() {
  std::vector<std::shared_ptr<manager>> all;
  {
    std::lock_guard const guard(mutex_);
    for (auto const& w : known_)
      if (auto m = w.lock()) all.push_back(std::move(m));
  }
  auto const until = boot_clock::now() + std::chrono::nanoseconds(longest_);
  for (auto const& m : all) {
    auto& c = m->its_closing();
    if (c.asked.exchange(true)) continue;
    m->parts().events.mute();  // the hook's objects might be destroyed already
    c.by = all_by_;
    c.calls_of_by = m->parts().under_way.in(calls_of_all_by_);
    c.time = m->parts().options.release_timeout;
    c.whom = m;
    begin(c);
  }
  for (auto const& m : all) base::wait_for(m->its_closing().ended, until);
  join_all(until);
  all_closed_.set();
}

// Includes workers of managers that were destroyed before. At the end of the process OpenSSL frees the data
// of each thread, and so does a thread that ends just then.
void closer::join_all(boot_time_point deadline) {
  for (;;) {
    join_done();
    if (workers_.empty() || !base::wait_for(wake_, deadline)) return;
    wake_.clear();
    begin_asked();
  }
}

void closer::join_done() {
  workers_.remove_if([](worker const& w) { return w.done.load(); });
}

}  // namespace rowlock::managing
