#include <fmt/format.h>

#include <algorithm>
#include <rowlock/election.hpp>
#include <rowlock/error.hpp>
#include <utility>

#include "recipes/campaign.hpp"
#include "recipes/candidacy.hpp"
#include "recipes/leadership_term.hpp"
#include "recipes/sleeper.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
namespace {

using namespace std::chrono_literals;

mutex_options as_lock(election_options const& o) {
  mutex_options m;
  m.strategy = strategy::lease;
  m.ttl = o.ttl;
  m.fair = true;
  m.fencing = true;
  m.note = o.value;
  m.retry.longest = 500ms;
  return m;
}

election_options checked(election_options o) {
  auto const require = [](bool good, std::string const& message) {
    if (!good) throw error(errc::invalid_argument, message);
  };
  require(o.stop_within >= 0ms && o.stop_within <= o.ttl / 2,
          fmt::format("stop_within of {} ms is out of range: at most half of the ttl, {} ms",
                      o.stop_within.count(), (o.ttl / 2).count()));
  require(o.health_interval >= 10ms && o.health_interval <= 1h,
          fmt::format("health_interval of {} ms is out of range: 10 ms to 1 h", o.health_interval.count()));
  return o;
}

}  // namespace

fencing_token leadership::token() const noexcept { return term_.lock().token(); }
boot_time_point leadership::trusted_until() const noexcept {
  return term_.lock().trusted_until().value_or(boot_time_point{});
}
held_lock const& leadership::lock() const noexcept { return term_.lock(); }
void leadership::resign() noexcept { term_.resign(); }
bool leadership::set_value(std::string const& value) { return term_.lock().set_note(value); }

election::election(lock_manager& manager, std::string name, election_options options)
    : manager_(manager),
      options_(checked(std::move(options))),
      mutex_(manager.make_mutex(std::move(name), as_lock(options_))),
      candidacy_(std::make_shared<recipes::candidacy>()) {}

std::string const& election::name() const noexcept { return mutex_.name(); }

bool election::wait_until_healthy(recipes::sleeper& nap, std::stop_token const& stop) const {
  while (!recipes::is_healthy(options_))
    if (!nap.sleep_until(boot_clock::now() + options_.health_interval, stop)) return false;
  return true;
}

std::optional<bool> election::lead_once(work const& w, std::stop_token const& stop) {
  auto won = mutex_.acquire(stop);
  if (!won) return std::nullopt;
  // After days in the queue the candidate might be ill.
  if (!recipes::is_healthy(options_)) return false;
  recipes::leadership_term term(*std::move(won), options_, stop);
  leadership l(term);
  w(l, term.token());
  return true;
}

bool election::run(work const& w, std::stop_token stop) {
  if (!w) throw error(errc::invalid_argument, fmt::format("'{}': an election without work", name()));
  recipes::only_candidate const here(candidacy_, name());
  recipes::sleeper nap;
  bool led = false;
  while (wait_until_healthy(nap, stop)) {
    auto const came = lead_once(w, stop);
    if (!came) break;
    led = led || *came;
    if (*came && !options_.again) break;
    if (!nap.sleep_until(boot_clock::now() + recipes::pause_after_a_term, stop)) break;
  }
  return led;
}

async_start<std::optional<elected>> election::campaigning() {
  return [this](executor where, std::unique_ptr<async_handler<std::optional<elected>>> whom,
                std::stop_token stop) {
    recipes::campaign::begin(manager_.manager_, mutex_, options_, candidacy_, std::move(where),
                             std::move(whom), std::move(stop));
  };
}

std::optional<leader_info> election::leader() const { return find_leader(manager_, name()); }

async_result<std::optional<elected>> election::async_campaign(std::reference_wrapper<executor const> where,
                                                              std::stop_token stop) {
  return {campaigning(), where, std::move(stop)};
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
