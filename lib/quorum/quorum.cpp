#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <rowlock/error.hpp>
#include <rowlock/quorum.hpp>
#include <set>
#include <thread>

#include "base/deadline.hpp"
#include "base/never_destroyed.hpp"
#include "quorum/quorum_call.hpp"
#include "quorum/quorum_membership.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

using namespace std::chrono_literals;

quorum_lock::quorum_lock(std::shared_ptr<voting::quorum_engine> c,
                         std::shared_ptr<voting::quorum_hold> h) noexcept
    : engine_(std::move(c)), hold_(std::move(h)) {}
quorum_lock::quorum_lock(quorum_lock&&) noexcept = default;
quorum_lock& quorum_lock::operator=(quorum_lock&& other) noexcept {
  if (this == &other) return *this;
  (void)release();
  engine_ = std::move(other.engine_);
  hold_ = std::move(other.hold_);
  return *this;
}
quorum_lock::~quorum_lock() { (void)release(); }

std::string const& quorum_lock::name() const noexcept {
  static auto const& none = base::never_destroyed<std::string>();
  return hold_ ? hold_->name() : none;
}
fencing_token quorum_lock::token() const noexcept { return hold_ ? hold_->token() : fencing_token{}; }
boot_time_point quorum_lock::trusted_until() const noexcept {
  return hold_ ? hold_->trusted_until() : boot_time_point{};
}
bool quorum_lock::valid() const noexcept { return hold_ && hold_->valid(); }
std::stop_token quorum_lock::loss_token() const noexcept {
  return hold_ ? hold_->loss_token() : std::stop_token{};
}
std::optional<loss_reason> quorum_lock::loss() const noexcept {
  return hold_ ? hold_->loss() : std::optional<loss_reason>{};
}
int quorum_lock::votes() const noexcept { return hold_ ? static_cast<int>(hold_->votes()) : 0; }

bool quorum_lock::extend(std::chrono::milliseconds duration) {
  if (!hold_ || !hold_->valid()) return false;
  auto const v = engine_->view();
  if (duration < 1ms || duration > v->record.max_ttl)
    throw error(errc::invalid_argument,
                fmt::format("'{}': extending by {} ms: 1 ms to {} ms, the longest of this quorum", name(),
                            duration.count(), v->record.max_ttl.count()));
  auto const before = boot_clock::now();
  for (std::size_t i = 0; i < engine_->members().size(); ++i)
    if (!v->left_out[i]) engine_->confirm(i, hold_, hold_->token(), v->record.epoch_id, duration);
  hold_->wait_for_answers(before + engine_->members().reply_timeout());
  return hold_->valid() && hold_->trusted_until() >= managing::trust_of_vote(before, duration);
}

release_result quorum_lock::release() noexcept {
  if (!hold_) return release_result::released;
  if (engine_->forked()) return release_result::already_lost;
  engine_->forget(*hold_);
  bool was_held = false;
  auto granted = hold_->end(was_held);
  if (granted.empty()) return release_result::released;
  // A paused process can get here before its keeper thread.
  if (hold_->announcement_is_due()) engine_->tell_loss(*hold_);
  auto const gone = engine_->give_back(std::move(granted), hold_->first());
  if (!was_held) return release_result::already_lost;
  engine_->report({.kind = event_kind::released, .name = hold_->name(), .token = hold_->token()});
  engine_->tell_ended(*hold_);
  return static_cast<std::size_t>(gone) >= hold_->majority() ? release_result::released
                                                             : release_result::in_doubt;
}

quorum_lock& quorum_acquisition::value() & {
  if (lock_) return *lock_;
  auto const by =
      holder_ ? fmt::format(", held by process {} on {}", holder_->owner.pid, holder_->owner.host) : "";
  throw error(errc::not_acquired, to_string(status_) + by);
}

struct quorum_mutex::state {
  state(std::shared_ptr<voting::quorum_engine> c, std::string n, mutex_options o)
      : engine(std::move(c)), name(std::move(n)), options(std::move(o)) {}

  std::shared_ptr<voting::quorum_engine> engine;
  std::string name;
  mutex_options options;
  std::mutex mutex;
  std::map<std::thread::id, quorum_lock> kept;
};

quorum_mutex::quorum_mutex(std::shared_ptr<state> s) noexcept : state_(std::move(s)) {}
quorum_mutex::quorum_mutex(quorum_mutex&&) noexcept = default;
quorum_mutex& quorum_mutex::operator=(quorum_mutex&&) noexcept = default;
quorum_mutex::~quorum_mutex() = default;

std::string const& quorum_mutex::name() const noexcept {
  static auto const& none = base::never_destroyed<std::string>();
  return state_ ? state_->name : none;
}

quorum_acquisition quorum_mutex::take(voting::quorum_wait_policy const& p, std::stop_token stop) const {
  auto const s = state_;
  if (!s) throw error(errc::invalid_argument, "this mutex was moved from");
  s->engine->refuse_if_forked();
  if (s->engine->held_by_this_thread(s->name))
    throw error(errc::would_deadlock, fmt::format("'{}' is held by this thread", s->name));
  auto came = voting::quorum_call(*s->engine, s->name, s->options, p, std::move(stop)).run();
  if (!came.won) return {came.why, std::move(came.holder)};
  return quorum_lock(s->engine, std::move(came.won));
}

quorum_acquisition quorum_mutex::acquire(std::stop_token stop) { return take({}, std::move(stop)); }
quorum_acquisition quorum_mutex::try_acquire() { return take({.one_attempt = true}, {}); }
quorum_acquisition quorum_mutex::try_acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop) {
  return take({.deadline = base::deadline_after(timeout)}, std::move(stop));
}

bool quorum_mutex::keep(quorum_acquisition taken) {
  if (!taken) return false;
  std::lock_guard const guard(state_->mutex);
  state_->kept.insert_or_assign(std::this_thread::get_id(), *std::move(taken));
  return true;
}

void quorum_mutex::lock() {
  auto came = acquire();
  if (came.status() == acquire_status::cancelled)
    throw error(errc::closed, fmt::format("'{}': a lock_manager of its quorum was destroyed", name()));
  keep(std::move(came));
}
bool quorum_mutex::try_lock() { return keep(try_acquire()); }
bool quorum_mutex::try_lock_in(std::chrono::nanoseconds timeout) { return keep(try_acquire_for(timeout)); }

void quorum_mutex::unlock() noexcept {
  if (!state_) return;
  std::optional<quorum_lock> last;
  std::lock_guard const guard(state_->mutex);
  auto const found = state_->kept.find(std::this_thread::get_id());
  if (found == state_->kept.end()) return;
  last.emplace(std::move(found->second));
  state_->kept.erase(found);
}

quorum::quorum(std::vector<lock_manager*> members, quorum_options options) {
  if (members.size() < 3)
    throw error(errc::invalid_argument,
                fmt::format("{} databases: a majority that survives one of them needs three at least",
                            members.size()));
  std::vector<managing::member> managers;
  for (auto* const m : members) {
    if (std::count(members.begin(), members.end(), m) > 1)
      throw error(errc::invalid_argument, "one lock_manager is there twice: each member needs its own");
    managers.emplace_back(*m);
  }
  // A forked child's copy has no threads, so it can't be ended.
  engine_ = std::shared_ptr<voting::quorum_engine>(
      new voting::quorum_engine(std::move(managers), std::move(options)), [](voting::quorum_engine* c) {
        if (!c->forked()) delete c;
      });
}
quorum::~quorum() = default;

quorum_mutex quorum::make_mutex(std::string name, mutex_options options) {
  auto const refuse = [&](bool given, char const* what) {
    if (given) throw error(errc::unsupported, fmt::format("'{}': {} can't be had of a quorum", name, what));
  };
  refuse(options.strategy && !traits(*options.strategy).by_majority, "another strategy");
  refuse(std::holds_alternative<takes_over>(options.owner), "owner takes_over");
  refuse(options.fencing && !*options.fencing, "a lock without a token");
  refuse(options.retry.attempts > 0, "a bound of attempts");
  refuse(static_cast<bool>(options.retry.policy), "a retry policy");
  options.strategy = strategy::quorum;
  // Checks the other options.
  engine_->members().at(0).check(name, options);
  return quorum_mutex(std::make_shared<quorum_mutex::state>(engine_, std::move(name), std::move(options)));
}

std::vector<quorum_member_info> quorum::status() {
  engine_->refuse_if_forked();
  return voting::quorum_membership(engine_->members()).status();
}

std::vector<std::variant<std::vector<lock_info>, std::string>> quorum::list(list_options const& options) {
  engine_->refuse_if_forked();
  std::vector<std::variant<std::vector<lock_info>, std::string>> all(engine_->members().size());
  engine_->members().ask_all([&](std::size_t i) {
    try {
      auto locks = engine_->members().at(i).list(options);
      std::erase_if(locks, [](lock_info const& l) { return !traits(l.holder.strategy).by_majority; });
      all[i] = std::move(locks);
    } catch (std::exception const& e) {
      all[i] = std::string(e.what());
    }
  });
  return all;
}

quorum_outcome quorum::revoke(std::string const& name, revoke_mode mode) {
  engine_->refuse_if_forked();
  auto& members = engine_->members();
  return voting::quorum_membership(members).change(
      members.size() / 2 + 1, [&](std::size_t i) { return members.at(i).revoke(name, mode); });
}

void quorum::init(std::chrono::milliseconds max_ttl, std::stop_token stop) {
  engine_->refuse_if_forked();
  voting::quorum_membership(engine_->members()).init(max_ttl, stop);
}
void quorum::join(std::size_t place, std::string const& replaces, std::stop_token stop) {
  engine_->refuse_if_forked();
  voting::quorum_membership(engine_->members()).join(place, replaces, stop);
}
quorum_outcome quorum::drop() {
  engine_->refuse_if_forked();
  return voting::quorum_membership(engine_->members()).drop();
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
