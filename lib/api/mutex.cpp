#include <map>
#include <mutex>
#include <rowlock/mutex.hpp>
#include <vector>

#include "api/mutex_state.hpp"
#include "process/identity.hpp"

namespace rowlock {

basic_mutex::basic_mutex(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
basic_mutex::basic_mutex(basic_mutex&&) noexcept = default;

basic_mutex::~basic_mutex() {
  // In a forked child the parent may have been amid lock(): leave everything.
  if (state_ && state_->epoch != base::fork_epoch()) (void)state_.release();
}

std::string const& basic_mutex::name() const noexcept { return state_->spec.name; }

acquisition basic_mutex::acquire(std::stop_token stop) {
  return state_->manager->acquire(state_->spec, {}, std::move(stop));
}

acquisition basic_mutex::try_acquire() {
  return state_->manager->acquire(state_->spec, {.one_attempt = true}, {});
}

acquisition basic_mutex::try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop) {
  return state_->manager->acquire(state_->spec, {.deadline = process::deadline_after(timeout)},
                                  std::move(stop));
}

void basic_mutex::lock() {
  while (!keep(state_->manager->acquire(state_->spec, {.insistent = true}, {}))) {
  }
}

bool basic_mutex::try_lock() { return keep(try_acquire()); }

bool basic_mutex::keep(acquisition taken) {
  if (!taken) return false;
  auto const owner = taken->owner().thread;
  std::lock_guard const guard(state_->mutex);
  state_->kept[owner].push_back(*std::move(taken));
  return true;
}

void basic_mutex::unlock() noexcept {
  if (state_->epoch != base::fork_epoch()) return;
  std::optional<held_lock> last;
  {
    std::lock_guard const guard(state_->mutex);
    auto const found = state_->kept.find(state_->spec.owner().thread);
    if (found == state_->kept.end()) return;
    last.emplace(std::move(found->second.back()));
    found->second.pop_back();
    if (found->second.empty()) state_->kept.erase(found);
  }
  (void)last->release();
}

held_lock const* basic_mutex::current() const noexcept {
  if (state_->epoch != base::fork_epoch()) return nullptr;
  std::lock_guard const guard(state_->mutex);
  auto const found = state_->kept.find(state_->spec.owner().thread);
  return found == state_->kept.end() ? nullptr : &found->second.back();
}

}  // namespace rowlock
