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
namespace {

/// A call of the manager's that a thread of the library makes.
template <class Result>
async_start<Result> asked_later(std::shared_ptr<managing::manager> m, std::function<Result()> what) {
  return [m = std::move(m), what = std::move(what)](
             executor where, std::unique_ptr<async_handler<Result>> whom, std::stop_token const&) {
    m->ask_later<Result>(std::move(where), std::move(whom), what);
  };
}

std::shared_ptr<holding::hold> exchanged(managing::manager& m, std::shared_ptr<holding::hold> const& h,
                                         bool for_writing) {
  using kind = managing::permit_spec::kind;
  return m.exchange(h, {for_writing ? kind::writer : kind::reader, for_writing ? strategies::all_units : 1,
                        strategies::all_units});
}

}  // namespace

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
  bool const mine = live_.exchange(false);
  try {
    manager_->ask_later<release_result>(
        std::move(where), std::move(whom),
        [m = manager_, h = hold_, mine] {
          auto const what = mine ? m->release(h) : release_result::released;
          bool const by_the_end = what == release_result::already_lost && !h->loss();
          return by_the_end ? release_result::released : what;
        },
        true);
  } catch (...) {
    live_ = mine;
    throw;
  }
}

async_start<bool> held_lock::extending(std::chrono::milliseconds duration) const {
  return asked_later<bool>(manager_, [m = manager_, h = hold_, live = live_.load(), duration] {
    return live && m->extend(h, duration);
  });
}

async_start<bool> held_lock::noting(std::string const& note) const {
  return asked_later<bool>(manager_, [m = manager_, h = hold_, live = live_.load(), note] {
    return live && m->set_note(h, note);
  });
}

async_start<bool> held_lock::recording(std::chrono::milliseconds keep_for, std::string const& result) const {
  return asked_later<bool>(manager_, [m = manager_, h = hold_, live = live_.load(), keep_for, result] {
    return live && m->record(h, keep_for, result);
  });
}

async_start<std::optional<held_lock>> held_lock::exchanging(bool for_writing) const {
  return asked_later<std::optional<held_lock>>(
      manager_, [m = manager_, h = hold_, live = live_.load(), for_writing]() -> std::optional<held_lock> {
        auto fresh = live ? exchanged(*m, h, for_writing) : nullptr;
        if (!fresh || (fresh == h && !h->share())) return std::nullopt;
        held_lock lock(m, std::move(fresh));
        lock.later_ = true;
        return lock;
      });
}

async_start<std::optional<loss_reason>> held_lock::ending() const {
  return [m = manager_, h = hold_](executor where,
                                   std::unique_ptr<async_handler<std::optional<loss_reason>>> whom,
                                   std::stop_token stop) {
    m->wait_for_end_later(h, std::move(stop), std::move(where), std::move(whom));
  };
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

bool held_lock::exchange(bool for_writing) {
  if (!live_) return false;
  auto fresh = exchanged(*manager_, hold_, for_writing);
  if (!fresh) return false;
  hold_ = std::move(fresh);
  return true;
}

bool held_lock::try_upgrade() { return exchange(true); }
bool held_lock::downgrade() { return exchange(false); }

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
