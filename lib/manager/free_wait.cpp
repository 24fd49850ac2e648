#include "manager/free_wait.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "strategy/permits.hpp"

namespace rowlock::managing {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr std::chrono::nanoseconds shortest_look = 2ms;
constexpr std::chrono::nanoseconds longest_look = 250ms;

}  // namespace

free_wait::free_wait(engine& e, lock_spec const& spec, std::optional<time_point> deadline,
                     std::stop_token stop, waiting::bell& to_ring)
    : engine_(e), spec_(spec), deadline_(deadline), stop_(e, std::move(stop), to_ring), run_(run()) {}

steps<bool> free_wait::run() {
  for (auto const began = steady_clock::now(); !stop_.now();) {
    co_await question{question::kind::look, std::span(&spec_, 1)};
    if (free_) co_return true;
    bool const over = deadline_ && steady_clock::now() >= *deadline_;
    if (failure_ && (over || !failure_->retryable())) throw error(*failure_);
    if (over) break;
    // A look after a stop would keep an answer from the program for as long as the database is silent.
    if (!stop_.now()) co_await rest{next_look(began)};
  }
  co_return false;
}

void free_wait::ask() {
  failure_.reset();
  ends_in_.reset();
  try {
    free_ = is_free();
  } catch (error const& e) {
    failure_ = e;
  }
}

bool free_wait::is_free() {
  auto const deadline = engine_.reply_deadline();
  auto loan = engine_.pool.borrow(deadline, stop_.token());
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
