#pragma once
// A call that never waits: a coroutine, which says what it needs before it can go on. Its driver sees to
// that, with a thread (drive()) or without one. Between two needs it only computes: nothing reaches the
// database, in destructors neither, so that who must not wait can run it.
//
// g++ 12 destroys some temporaries twice that are made inside a co_await expression: what is awaited here has
// no member that owns anything. [F: one loop]

#include <cassert>
#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "manager/lock_spec.hpp"
#include "waiting/bell.hpp"

namespace rowlock::managing {

/// Something that the database is asked. The call knows how; what has come of it is for the call to judge.
struct question {
  enum class kind {
    connect,    ///< a session
    stand,      ///< in line at the wait queue of a name
    attempt,    ///< to take all of the names
    leave,      ///< the wait queue
    give_back,  ///< what was granted, and is not to be handed out
    look,       ///< whether a name is free
    exchange    ///< a permit for another one
  };
  kind what;
  std::span<lock_spec const> of{};  ///< the names: one, or all of the call; none of what is held already
};

/// Time, or that the call's bell is rung.
struct pause {
  std::optional<std::chrono::steady_clock::time_point> until;  ///< empty: only the bell ends it
};

/// As a pause, but no bell ends it, unless the call was told to stop.
struct rest {
  std::chrono::steady_clock::time_point until;
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

  /// What it waits for, if that is a question.
  question const* asks() const noexcept { return std::get_if<question>(&frame_.promise().needs); }

  /// Goes on as far as that can be done at once. Not after a result, or an exception. May be called too
  /// early: then the rest is not over.
  /// @throws whatever the call does
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
    if (auto const* const r = std::get_if<rest>(&p.needs)) return pause{r->until};
    if (auto const* const w = std::get_if<pause>(&p.needs)) return *w;
    return std::get<question>(p.needs);
  }

 private:
  explicit steps(std::coroutine_handle<promise_type> f) noexcept : frame_(f) {}
  std::coroutine_handle<promise_type> frame_;
};

/// Drives a call by the calling thread, which sleeps at its bell meanwhile.
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
