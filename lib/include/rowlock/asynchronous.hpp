#pragma once
// Handlers and awaited results of asynchronous calls. lib/doc/asynchronous.md

#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// For the library: who gets the result of an asynchronous call, once.
template <class Result>
class async_handler {
 public:
  async_handler() = default;
  async_handler(async_handler const&) = delete;
  async_handler& operator=(async_handler const&) = delete;
  virtual ~async_handler() = default;
  virtual void call(std::exception_ptr, Result) = 0;

  template <std::invocable<std::exception_ptr, Result> Handler>
  static std::unique_ptr<async_handler> of(Handler h) {
    struct model final : async_handler {
      explicit model(Handler what) : handler(std::move(what)) {}
      void call(std::exception_ptr e, Result r) override { std::move(handler)(std::move(e), std::move(r)); }
      Handler handler;
    };
    return std::make_unique<model>(std::move(h));
  }
};

/// For the library: how long a call waits. Without a timeout, for ever.
struct async_wait {
  bool one_attempt = false;
  std::optional<std::chrono::nanoseconds> timeout{};
};

/// For the library: a completion token of Asio's. Members that take one are defined in <rowlock/asio.hpp>.
template <class Token>
concept completion_token = !std::convertible_to<Token, executor> &&
                           !std::convertible_to<Token, std::reference_wrapper<executor const>>;

/// For the library: begins a call.
template <class Result>
using async_start = std::function<void(executor, std::unique_ptr<async_handler<Result>>, std::stop_token)>;

/// An asynchronous call to be awaited, once: `auto lock = co_await jobs.async_acquire(where);`
///
/// The call begins with co_await. `where` resumes the coroutine with the result, or what the call threw. An
/// executor that refuses the continuation leaves the coroutine suspended, and a granted lock is released.
///
/// The frame of a suspended coroutine may be destroyed on the thread of its executor, if that runs one
/// continuation at a time. That stops the call, and a lock that comes nevertheless is released. A forked
/// child must not destroy the frame.
///
/// g++ 12 destroys some temporaries of a co_await expression twice. So the functions that return this object
/// take the executor by reference only.
template <class Result>
class [[nodiscard]] async_result {
 public:
  /// For the library.
  async_result(async_start<Result> begin, executor where, std::stop_token stop)
      : begin_(std::move(begin)), where_(std::move(where)), it_(std::make_shared<call>(std::move(stop))) {}
  async_result(async_result const&) = delete;
  async_result& operator=(async_result const&) = delete;
  ~async_result() { it_->leave(); }

  bool await_ready() const noexcept { return false; }
  /// The coroutine can be resumed, and this object destroyed, before it returns. [F16]
  [[gnu::noinline]] void await_suspend(std::coroutine_handle<> whom) {
    auto const it = it_;
    auto const begin = std::move(begin_);
    auto where = std::move(where_);
    it->whom = whom;
    it->on_stop.emplace(it->by_program, forward{it->stop});
    begin(std::move(where),
          async_handler<Result>::of([it](std::exception_ptr e, Result r) { it->complete(e, std::move(r)); }),
          it->stop.get_token());
  }
  Result await_resume() {
    if (it_->failed) std::rethrow_exception(it_->failed);
    return *std::move(it_->came);
  }

 private:
  struct forward {
    std::stop_source to;
    void operator()() noexcept { (void)to.request_stop(); }
  };
  enum class state { not_complete, complete, left };
  struct call {
    explicit call(std::stop_token t) : by_program(std::move(t)) {}
    void complete(std::exception_ptr const& e, Result r) {
      if (is.exchange(state::complete) == state::left) return;
      on_stop.reset();
      failed = e;
      came.emplace(std::move(r));
      whom.resume();
    }
    void leave() noexcept {
      if (is.exchange(state::left) == state::complete) return;
      on_stop.reset();
      (void)stop.request_stop();
    }

    std::stop_token by_program;
    std::stop_source stop{};
    std::optional<std::stop_callback<forward>> on_stop{};
    std::coroutine_handle<> whom{};
    std::exception_ptr failed{};
    std::optional<Result> came{};
    std::atomic<state> is = state::not_complete;
  };

  async_start<Result> begin_;
  executor where_;
  std::shared_ptr<call> it_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
