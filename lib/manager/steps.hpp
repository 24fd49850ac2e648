#pragma once
// A call as a coroutine that never waits, but yields its next need: a question to the database, or a pause.
// The driver satisfies the need, with a thread (drive()) or without one. Between two needs, and in
// destructors, the call never reaches the database. So a thread that must not wait can run it.
//
// g++ 12 destroys some temporaries of a co_await expression twice. So the awaited types here own nothing.
// [F24]

#include <cassert>
#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "manager/lock_spec.hpp"
#include "strategy/term_rows.hpp"
#include "waiting/bell.hpp"

namespace rowlock::managing {

/// A question to the database. The call asks it, and judges the outcome.
struct question {
  enum class kind {
    connect,    ///< open a session
    stand,      ///< enter the wait queue of a name
    attempt,    ///< take all names
    leave,      ///< leave the wait queue
    give_back,  ///< release granted locks
    look,       ///< is a name free?
    exchange    ///< exchange a permit for another one
  };
  kind what;
  std::span<lock_spec const> of{};  ///< one name, or all of the call. Empty for an exchange
};

/// What a driver can watch during a rest, so that the call need not poll: see name_watch.hpp. A driver that
/// can't watch ignores it. All pointers are valid during the rest.
struct watchable {
  lock_spec const* name = nullptr;  ///< null: nothing
  strategies::term_row const* seen = nullptr;
  owner_id const* explicit_owner = nullptr;           ///< the call's, or null
  std::chrono::steady_clock::time_point at_latest{};  ///< the end of the rest with a watch
};

/// A wait that the call's bell can end early.
struct pause {
  std::optional<std::chrono::steady_clock::time_point> until;  ///< empty: only the bell ends it
  watchable watched{};
};

/// A pause that the bell ends early only if the call was told to stop.
struct rest {
  std::chrono::steady_clock::time_point until;
  watchable watched{};
};

template <class Result>
class steps {
 public:
  using need = std::variant<question, pause, Result>;

  struct promise_type {
    std::variant<std::monostate, question, pause, rest> needs;
    std::optional<Result> result;
    std::exception_ptr failed;

    template <class Need>
    std::suspend_always await_transform(Need const& n) {
      needs = n;
      return {};
    }
    steps get_return_object() { return steps(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(Result r) { result.emplace(std::move(r)); }
    void unhandled_exception() noexcept { failed = std::current_exception(); }
  };

  steps(steps&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  steps& operator=(steps&&) = delete;
  ~steps() {
    if (frame_) frame_.destroy();
  }

  /// The current question, or null.
  question const* asks() const noexcept { return std::get_if<question>(&frame_.promise().needs); }

  /// Goes on without waiting. Before the end of a rest, returns the rest again. Not after a result or an
  /// exception.
  /// @throws the exceptions of the call
  need next(bool stopped) {
    assert(!frame_.done());
    auto& p = frame_.promise();
    auto const* const resting = std::get_if<rest>(&p.needs);
    if (resting == nullptr || stopped || std::chrono::steady_clock::now() >= resting->until) {
      p.needs = std::monostate();
      frame_.resume();
    }
    if (p.failed) std::rethrow_exception(std::exchange(p.failed, nullptr));
    if (p.result) return *std::exchange(p.result, std::nullopt);
    if (auto const* const r = std::get_if<rest>(&p.needs)) return pause{r->until, r->watched};
    if (auto const* const w = std::get_if<pause>(&p.needs)) return *w;
    return std::get<question>(p.needs);
  }

  /// Ends a rest: next() goes on.
  void end_rest() noexcept {
    if (auto* const resting = std::get_if<rest>(&frame_.promise().needs))
      resting->until = std::chrono::steady_clock::time_point::min();
  }

 private:
  explicit steps(std::coroutine_handle<promise_type> f) noexcept : frame_(f) {}
  std::coroutine_handle<promise_type> frame_;
};

/// The calling thread asks, and sleeps at its bell during pauses.
template <class Call>
auto drive(Call& call, waiting::thread_bell& bell) {
  for (;;) {
    auto what = call.next();
    if (std::holds_alternative<question>(what))
      call.ask();
    else if (auto const* const wait = std::get_if<pause>(&what))
      bell.wait(wait->until);
    else
      return std::get<2>(std::move(what));
  }
}

}  // namespace rowlock::managing
