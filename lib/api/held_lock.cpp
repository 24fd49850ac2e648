#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <rowlock/held_lock.hpp>
#include <utility>
#include <vector>

#include "base/never_destroyed.hpp"
#include "guard/guard_statements.hpp"
#include "manager/manager.hpp"
#include "strategy/permits.hpp"

namespace rowlock {

held_lock::held_lock(std::shared_ptr<managing::manager> m, std::shared_ptr<holding::hold> h) noexcept
    : manager_(std::move(m)), hold_(std::move(h)), live_(true) {}

// A moved-from handle keeps its facts.
// NOLINTBEGIN(performance-move-constructor-init)
held_lock::held_lock(held_lock&& other) noexcept
    : manager_(other.manager_),
      hold_(other.hold_),
      live_(other.live_.exchange(false)),
      later_(other.later_) {}
// NOLINTEND(performance-move-constructor-init)

held_lock& held_lock::operator=(held_lock&& other) noexcept {
  if (this == &other) return *this;
  end();
  manager_ = other.manager_;
  hold_ = other.hold_;
  live_ = other.live_.exchange(false);
  later_ = other.later_;
  return *this;
}

held_lock::~held_lock() { end(); }

void held_lock::end() noexcept {
  if (later_)
    release_later();
  else
    (void)release();
}

void held_lock::release_later() noexcept {
  if (live_.exchange(false)) manager_->release_later(hold_);
}

void held_lock::async_release_with(executor where, std::unique_ptr<async_handler<release_result>> whom) {
  manager_->refuse_if_ended();
  bool const mine = live_.exchange(false);
  try {
    manager_->asynchronous().run(std::make_unique<managing::errand_for<release_result>>(
                                     manager_, std::move(where), std::move(whom),
                                     [m = manager_, h = hold_, mine] {
                                       auto const what = mine ? m->release(h) : release_result::released;
                                       bool const by_the_end =
                                           what == release_result::already_lost && !h->loss();
                                       return by_the_end ? release_result::released : what;
                                     }),
                                 true);
  } catch (...) {
    live_ = mine;
    throw;
  }
}

std::string const& held_lock::name() const noexcept { return hold_->facts().name; }
term_id const& held_lock::term() const noexcept {
  static auto const& goes_on_elsewhere = base::never_destroyed<term_id>();
  return hold_->share_term() ? hold_->facts().term : goes_on_elsewhere;
}
fencing_token held_lock::token() const noexcept { return hold_->facts().token; }
owner_id const& held_lock::owner() const noexcept { return hold_->facts().owner; }
std::optional<boot_time_point> held_lock::trusted_until() const noexcept {
  if (!traits(hold_->facts().strategy).has_expiry) return std::nullopt;
  return hold_->trusted_until();
}
bool held_lock::valid() const noexcept { return live_ && hold_->valid(); }
std::stop_token held_lock::loss_token() const noexcept { return hold_->loss_token(); }
std::optional<loss_reason> held_lock::loss() const noexcept { return hold_->loss(); }
std::string held_lock::loss_details() const { return hold_->loss_details(); }

bool held_lock::extend(std::chrono::milliseconds duration) {
  return live_ && manager_->extend(hold_, duration);
}

bool held_lock::set_note(std::string const& note) { return live_ && manager_->set_note(hold_, note); }

std::optional<detached_lock> held_lock::detach() {
  if (!live_) return std::nullopt;
  auto left = manager_->detach(hold_);
  live_ = false;
  return left;
}

bool held_lock::done(std::chrono::milliseconds keep_for, std::string const& result) {
  if (!live_ || !manager_->record(hold_, keep_for, result)) return false;
  live_ = false;
  return true;
}

std::vector<guard_statement> held_lock::guard_statements(placeholders style) const {
  return guard::guard_statements({manager_, hold_, live_}, style);
}

bool held_lock::exchange(std::int64_t units) {
  if (!live_) return false;
  bool const writes = units == strategies::all_units;
  using kind = managing::permit_spec::kind;
  auto fresh =
      manager_->exchange(hold_, {writes ? kind::writer : kind::reader, units, strategies::all_units});
  if (!fresh) return false;
  hold_ = std::move(fresh);
  return true;
}

bool held_lock::try_upgrade() { return exchange(strategies::all_units); }
bool held_lock::downgrade() { return exchange(1); }

release_result held_lock::release() noexcept {
  if (!live_.exchange(false)) return release_result::released;
  return manager_->release(hold_);
}

acquisition::acquisition(acquire_status why_not, std::optional<holder_info> holder)
    : status_(why_not), holder_(std::move(holder)) {
  if (why_not == acquire_status::acquired)
    throw error(errc::invalid_argument, "an acquisition without a lock can't say acquired");
}

void acquisition::require_lock() const {
  if (lock_) return;
  auto const by =
      holder_ ? fmt::format(", held by process {} on {}", holder_->owner.pid, holder_->owner.host) : "";
  throw error(errc::not_acquired, to_string(status_) + by);
}

held_lock& acquisition::value() & {
  require_lock();
  return *lock_;
}
held_lock const& acquisition::value() const& {
  require_lock();
  return *lock_;
}
held_lock acquisition::value() && {
  require_lock();
  return take_out();
}

}  // namespace rowlock
