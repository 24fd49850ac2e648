#include "manager/free_wait.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <rowlock/error.hpp>

#include "strategy/permits.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::nanoseconds shortest_look = 2ms;
constexpr std::chrono::nanoseconds longest_look = 250ms;

/// Triggered by the caller's, or when the manager is closed.
class either {
 public:
  either(std::stop_token const& one, std::stop_token const& other)
      : on_one_(one, pass_on{&both_}), on_other_(other, pass_on{&both_}) {}
  std::stop_token token() const noexcept { return both_.get_token(); }

 private:
  struct pass_on {
    std::stop_source* to;
    void operator()() const noexcept { to->request_stop(); }
  };
  std::stop_source both_;
  std::stop_callback<pass_on> on_one_;
  std::stop_callback<pass_on> on_other_;
};

}  // namespace

bool free_wait::run() {
  either const stopped(stop_, engine_.closing.get_token());
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  for (auto const began = steady_clock::now();;) {
    if (look()) return true;
    bool const over = deadline_ && steady_clock::now() >= *deadline_;
    if (over && failure_) throw *failure_;
    if (over || stopped.token().stop_requested()) return false;
    never.wait_until(lock, stopped.token(), next_look(began), [] { return false; });
  }
}

bool free_wait::look() try {
  failure_.reset();
  ends_in_.reset();
  return is_free();
} catch (error const& e) {
  if (!e.retryable()) throw;
  failure_ = e;
  return false;
}

bool free_wait::is_free() {
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline, stop_);
  if (engine_.strategies.of(spec_.strategy).holder(*loan, spec_.name, deadline)) return false;
  if (spec_.permit)
    return strategies::permits(engine_.database.statements(), spec_.strategy)
               .free_units(*loan, spec_.name, spec_.permit->limit, deadline) == spec_.permit->limit;
  auto const row = engine_.tables.locks.read(*loan, spec_.name, deadline);
  if (!row || row->takeable() || row->holder.done) return true;
  if (row->takeover == takeover::clock) ends_in_ = row->holder.expires_in;
  return false;
}

free_wait::time_point free_wait::next_look(time_point began) const {
  auto const now = steady_clock::now();
  auto wait = std::clamp<std::chrono::nanoseconds>((now - began) / 8, shortest_look, longest_look);
  if (ends_in_ && *ends_in_ < wait) wait = std::max<std::chrono::nanoseconds>(*ends_in_, shortest_look);
  return deadline_ ? std::min<time_point>(now + wait, *deadline_) : now + wait;
}

}  // namespace rowlock::managing
