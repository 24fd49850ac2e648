#include <fmt/format.h>

#include <map>
#include <mutex>
#include <rowlock/error.hpp>
#include <rowlock/mutex.hpp>
#include <vector>

#include "api/asynchronous.hpp"
#include "api/mutex_state.hpp"
#include "base/deadline.hpp"
#include "base/never_destroyed.hpp"
#include "base/process_end.hpp"
#include "manager/identity.hpp"

namespace rowlock {

basic_mutex::basic_mutex(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
basic_mutex::basic_mutex(basic_mutex&&) noexcept = default;

basic_mutex::~basic_mutex() { end(); }

basic_mutex& basic_mutex::operator=(basic_mutex&& other) noexcept {
  if (this == &other) return *this;
  end();
  state_ = std::move(other.state_);
  return *this;
}

std::shared_ptr<basic_mutex::state> basic_mutex::there() const {
  if (state_) return state_;
  throw error(errc::invalid_argument, "this mutex was moved from");
}

std::shared_ptr<basic_mutex::state> basic_mutex::lockable() const {
  auto s = there();
  if (s->spec.known_again()) return s;
  throw error(
      errc::unsupported,
      fmt::format("'{}': with owner each_acquire unlock() could not tell whose lock is meant: use acquire()",
                  s->spec.name));
}

void basic_mutex::end() noexcept {
  if (!state_) return;
  bool const forked = state_->epoch != base::fork_epoch();
  bool const interrupted = state_->manager->parts().under_way.interrupted();
  if (forked || interrupted || base::process_ends()) state_->self = state_;
  // exit() in a signal handler or hook: the manager's end releases this thread's locks.
  if (forked || interrupted || (base::process_ends() && base::inside_the_library())) return;
  state_->give_back_all();
}

acquisition basic_mutex::state::acquire(managing::wait_policy p, std::stop_token stop) {
  auto came = manager->acquire(spec, p, std::move(stop));
  if (!came.won) return {came.why, std::move(came.holder)};
  return held_lock(manager, std::move(came.won));
}

// With std::mutex this is undefined behaviour.
void basic_mutex::state::say_not_this_threads() const noexcept {
  manager->parts().events.report(
      {.kind = event_kind::error,
       .name = spec.name,
       .message = "unlock() gave nothing back, because the calling thread has taken nothing by lock() or "
                  "try_lock() on this object: call it in the thread that did, or use acquire(), whose "
                  "handle any thread may release",
       .label = spec.options.label});
}

bool basic_mutex::state::keep(acquisition taken) {
  if (!taken) return false;
  auto const owner = taken->owner().thread;
  std::lock_guard const guard(mutex);
  kept[owner].push_back(*std::move(taken));
  return true;
}

void basic_mutex::state::give_back_all() noexcept {
  decltype(kept) all;
  {
    std::lock_guard const guard(mutex);
    all.swap(kept);
  }
  for (auto& [owner, locks] : all)
    for (auto& one : locks) (void)one.release();
  if (self) given_back.swap(all);
}

bool basic_mutex::wait_until_free_for(std::chrono::nanoseconds timeout, std::stop_token stop) {
  auto const s = there();
  return s->manager->wait_until_free(s->spec, base::deadline_after(timeout), std::move(stop));
}

std::string const& basic_mutex::name() const noexcept {
  static auto const& none = base::never_destroyed<std::string>();
  return state_ ? state_->spec.name : none;
}

acquisition basic_mutex::acquire(std::stop_token stop) {
  auto const s = there();
  return s->acquire({}, std::move(stop));
}

acquisition basic_mutex::try_acquire() {
  auto const s = there();
  return s->acquire({.one_attempt = true}, {});
}

acquisition basic_mutex::try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop) {
  auto const s = there();
  return s->acquire({.deadline = base::deadline_after(timeout)}, std::move(stop));
}

async_start<acquisition> basic_mutex::async(async_wait how) const {
  auto const s = there();
  return take_asynchronously(s->manager, s->spec, how);
}

async_start<bool> basic_mutex::async_until_free(std::chrono::nanoseconds timeout) const {
  auto const s = there();
  return [s, until = base::deadline_after(timeout)](executor where, std::unique_ptr<async_handler<bool>> h,
                                                    std::stop_token stop) {
    s->manager->wait_until_free_later(s->spec, until, std::move(stop), std::move(where), std::move(h));
  };
}

void basic_mutex::lock() {
  auto const s = lockable();
  s->manager->refuse_if_ended();
  for (;;) {
    auto came = s->acquire({.retry_forever = true}, {});
    if (came.status() == acquire_status::cancelled) s->manager->say_closed();
    if (came.status() == acquire_status::done) (void)came.value();  // throws: the lock can't be had any more
    if (s->keep(std::move(came))) return;
  }
}

bool basic_mutex::try_lock() {
  auto const s = lockable();
  return s->keep(s->acquire({.one_attempt = true}, {}));
}

bool basic_mutex::try_lock_in(std::chrono::nanoseconds timeout) {
  auto const s = lockable();
  return s->keep(s->acquire({.deadline = base::deadline_after(timeout)}, {}));
}

void basic_mutex::unlock() noexcept {
  auto const s = state_;
  if (!s || s->epoch != base::fork_epoch()) return;
  std::optional<held_lock> last;
  {
    std::lock_guard const guard(s->mutex);
    auto const found = s->kept.find(s->spec.thread_of_owner());
    if (found == s->kept.end()) return s->say_not_this_threads();
    last.emplace(std::move(found->second.back()));
    found->second.pop_back();
    if (found->second.empty()) s->kept.erase(found);
  }
  (void)last->release();
}

held_lock const* basic_mutex::current() const noexcept {
  if (!state_ || state_->epoch != base::fork_epoch()) return nullptr;
  std::lock_guard const guard(state_->mutex);
  auto const found = state_->kept.find(state_->spec.thread_of_owner());
  return found == state_->kept.end() ? nullptr : &found->second.back();
}

}  // namespace rowlock
