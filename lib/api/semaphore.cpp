#include <rowlock/error.hpp>
#include <rowlock/semaphore.hpp>

#include "api/asynchronous.hpp"
#include "api/semaphore_state.hpp"
#include "base/deadline.hpp"
#include "base/never_destroyed.hpp"

namespace rowlock {

semaphore::semaphore(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
semaphore::semaphore(semaphore&&) noexcept = default;
semaphore& semaphore::operator=(semaphore&&) noexcept = default;
semaphore::~semaphore() = default;

std::shared_ptr<semaphore::state> semaphore::there() const {
  if (state_) return state_;
  throw error(errc::invalid_argument, "this semaphore was moved from");
}

std::string const& semaphore::name() const noexcept {
  static auto const& none = base::never_destroyed<std::string>();
  return state_ ? state_->spec.name : none;
}

managing::lock_spec semaphore::state::of(std::int64_t units) const {
  return manager->spec(spec.name, spec.options, false,
                       managing::permit_spec{.units = units, .limit = spec.permit->limit});
}

async_start<acquisition> semaphore::async(std::int64_t units, async_wait how) const {
  auto const s = there();
  return take_asynchronously(s->manager, s->of(units), how);
}

acquisition semaphore::acquire(std::int64_t units, managing::wait_policy const& p,
                               std::stop_token stop) const {
  auto const s = there();
  auto const spec = s->of(units);
  auto came = s->manager->acquire(spec, p, std::move(stop));
  if (!came.won) return {came.why, std::move(came.holder)};
  return held_lock(s->manager, std::move(came.won));
}

acquisition semaphore::acquire(std::int64_t units, std::stop_token stop) {
  return acquire(units, managing::wait_policy{}, std::move(stop));
}

acquisition semaphore::try_acquire(std::int64_t units) {
  return acquire(units, managing::wait_policy{.one_attempt = true}, {});
}

acquisition semaphore::try_acquire_in(std::chrono::nanoseconds timeout, std::int64_t units,
                                      std::stop_token stop) {
  return acquire(units, managing::wait_policy{.deadline = base::deadline_after(timeout)}, std::move(stop));
}

std::optional<std::int64_t> semaphore::available() const {
  auto const s = there();
  return s->manager->free_units(s->spec);
}

void semaphore::set_limit(std::int64_t limit) {
  auto const s = there();
  auto const checked =
      s->manager->spec(s->spec.name, s->spec.options, false, managing::permit_spec{.limit = limit});
  s->manager->set_limit(checked, limit);
}

}  // namespace rowlock
