#include "recipes/leadership_term.hpp"
#include "base/thread_name.hpp"

#include <algorithm>
#include <utility>

namespace rowlock::recipes {

using namespace std::chrono_literals;

namespace {

/// For the destruction of the lock_manager, which is not reported to the term.
constexpr auto longest_between_looks = 1s;

}  // namespace

std::chrono::milliseconds time_to_stop(election_options const& o) noexcept {
  return o.stop_within != 0ms ? o.stop_within : std::min<std::chrono::milliseconds>(5s, o.ttl / 6);
}

bool is_healthy(election_options const& o) noexcept try { return !o.healthy || o.healthy(); } catch (...) {
  return false;
}

leadership_term::leadership_term(held_lock lock, election_options const& options, std::stop_token stop)
    : options_(options),
      lock_(std::move(lock)),
      on_stop_(std::move(stop), end_soon{*this}),
      on_loss_(lock_.loss_token(), end_soon{*this}),
      watching_([this](std::stop_token done) { watch(std::move(done)); }) {
  if (options_.healthy)
    watching_health_ = std::jthread([this](std::stop_token done) { watch_health(std::move(done)); });
}

leadership_term::~leadership_term() {
  watching_.request_stop();
  watching_.join();
  (void)lock_.release();
}

void leadership_term::end_soon::operator()() const noexcept {
  term.ends_ = true;
  term.waiter_.wake();
}

void leadership_term::resign() noexcept {
  tell_to_stop();
  waiter_.wake();  // to watch for an overrun
}

void leadership_term::tell_to_stop() noexcept {
  auto none = not_told;
  told_at_.compare_exchange_strong(none, boot_clock::now().time_since_epoch().count());
  work_.request_stop();
}

void leadership_term::watch(std::stop_token done) noexcept {
  base::name_thread("rowlock-leader");
  std::stop_callback const at_end(done, [this] { waiter_.wake(); });
  while (!done.stop_requested()) waiter_.wait_until(look());
}

// A renewal after tell_to_stop() changes nothing.
boot_time_point leadership_term::look() noexcept {
  auto const within = time_to_stop(options_);
  auto const now = boot_clock::now();
  auto const tell_at = lock_.trusted_until().value_or(now) - within;
  if (ends_ || now >= tell_at || !lock_.valid()) tell_to_stop();
  auto const told_at = told_at_.load();
  if (told_at == not_told) return std::min<boot_time_point>(tell_at, now + longest_between_looks);
  auto const overrun_at = boot_time_point(boot_clock::duration(told_at)) + within;
  if (overrun_) return boot_time_point::max();
  if (now < overrun_at) return overrun_at;
  overrun_ = true;
  try {
    if (options_.on_overrun) options_.on_overrun();
  } catch (...) {  // as if it had returned
  }
  return boot_time_point::max();
}

// On a thread of its own: a hung check must not delay the report to the work.
void leadership_term::watch_health(std::stop_token done) noexcept {
  base::name_thread("rowlock-health");
  while (is_healthy(options_))
    if (!between_checks_.sleep_until(boot_clock::now() + options_.health_interval, done)) return;
  end_soon{*this}();
}

}  // namespace rowlock::recipes
