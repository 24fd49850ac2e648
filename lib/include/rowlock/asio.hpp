#pragma once
// Asynchronous calls with the completion tokens of Asio: asynchronous.md, "With Asio".
//
//   auto lock = co_await jobs.async_acquire_for(5s, boost::asio::use_awaitable);
//
// Boost.Asio, or the Asio without Boost: where ASIO_STANDALONE is defined (<asio.hpp> does it) or Boost.Asio
// is not installed. <rowlock/rowlock.hpp> does not include this header.
//
// The calls are members, as the others are. The classes' headers only declare them, as templates with a
// parameter that nothing but a default argument can tell. It stands here. So a program without this header
// pays nothing, and gets "no matching function". In a program that uses both Asios, these are two templates.
//
// Another call: declare `template <completion_token Token, class Asio> auto async_x(..., Token&&)` in its
// class, and define it at the end by Asio::start, with what makes its async_start. If it can be stopped, and
// its Result has no status(), say Asio::brings_nothing.
//
// How it works. An `operation` has the handler, in an object with all that belongs to the execution context.
// It is posted as a `turn`. The context's `calls` know the operations. Their `service` learns of the
// context's end, and then
// - waits until no thread of the library is in a post,
// - destroys what belongs to the context, while this is still there: handlers, executors, work guards,
// - stops the calls. What they bring is refused, and a granted lock is released.
// Nothing of the context's is touched by the library from then on. [F15]

#include <rowlock/asynchronous.hpp>
#include <rowlock/error.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>
#include <rowlock/held_locks.hpp>
#include <rowlock/lock_manager.hpp>
#include <rowlock/mutex.hpp>
#include <rowlock/semaphore.hpp>
#include <rowlock/shared_mutex.hpp>
#include <rowlock/types.hpp>

#include <unistd.h>

#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(ASIO_STANDALONE) && __has_include(<boost/asio/version.hpp>)
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/version.hpp>
#if BOOST_ASIO_VERSION >= 102200
#define ROWLOCK_ASIO_HAS_SLOTS
#include <boost/asio/associated_cancellation_slot.hpp>
#endif
#define ROWLOCK_ASIO boost_asio
#else
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/error.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/query.hpp>
#include <asio/version.hpp>
#if ASIO_VERSION >= 102200
#define ROWLOCK_ASIO_HAS_SLOTS
#include <asio/associated_cancellation_slot.hpp>
#endif
#define ROWLOCK_ASIO standalone_asio
#endif

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

#if !defined(ASIO_STANDALONE) && __has_include(<boost/asio/version.hpp>)
namespace boost_asio {

namespace net = ::boost::asio;
using error_code = ::boost::system::error_code;

/// rowlock::error_category() for Boost's error_code. Values are those of rowlock::errc.
class category final : public ::boost::system::error_category {
 public:
  constexpr category() noexcept : error_category(0x726f776c6f636b21) {}
  char const* name() const noexcept override { return rowlock::error_category().name(); }
  std::string message(int e) const override { return rowlock::error_category().message(e); }
  ::boost::system::error_condition default_error_condition(int e) const noexcept override {
    auto const usual = rowlock::error_category().default_error_condition(e);
    if (usual.category() != std::generic_category()) return {e, *this};
    return {usual.value(), ::boost::system::generic_category()};
  }
};
inline category const& error_category() noexcept {
  static category const only;
  return only;
}
inline error_code translated(std::error_code const& e) noexcept {
  if (e.category() == rowlock::error_category()) return {e.value(), error_category()};
  if (e.category() == std::generic_category()) return {e.value(), ::boost::system::generic_category()};
  return {e.value(), ::boost::system::system_category()};
}

}  // namespace boost_asio

/// Whether this is the reason of an error that an asynchronous call brought.
inline bool operator==(boost_asio::error_code const& e, errc reason) noexcept {
  return e == boost_asio::error_code(static_cast<int>(reason), boost_asio::error_category());
}
#else
namespace standalone_asio {

namespace net = ::asio;
using error_code = std::error_code;

inline error_code translated(error_code const& e) noexcept { return e; }

}  // namespace standalone_asio
#endif

namespace ROWLOCK_ASIO {

inline error_code code_of(std::exception_ptr const& e) noexcept try {
  std::rethrow_exception(e);
} catch (std::system_error const& s) {
  return translated(s.code());
} catch (std::bad_alloc const&) {
  return net::error::no_memory;
} catch (...) {
  return translated(make_error_code(errc::failed));
}

/// Whether a call was stopped, for results that say so.
template <class Result>
bool aborted(Result const& r) noexcept {
  if constexpr (requires {
                  { r.status() } -> std::same_as<acquire_status>;
                }) {
    return r.status() == acquire_status::cancelled;
  } else {
    return false;
  }
}

/// What a call that was never made brings.
template <class Result>
Result nothing() {
  if constexpr (std::default_initializable<Result>) {
    return Result{};
  } else if constexpr (std::constructible_from<Result, acquire_status, std::optional<holder_info>>) {
    return Result(acquire_status::cancelled, std::nullopt);
  } else {
    return Result(acquire_status::cancelled, {}, std::nullopt);
  }
}

/// A call whose continuation is posted to a context.
class pending : public std::enable_shared_from_this<pending> {
 public:
  pending() = default;
  pending(pending const&) = delete;
  pending& operator=(pending const&) = delete;
  virtual ~pending() = default;
  /// Posted, and run.
  virtual void run() = 0;
  /// Posted, and destroyed without having been run.
  virtual void refuse() noexcept = 0;
  /// The context has ended.
  virtual void end() noexcept = 0;
};

/// The calls of a context. Outlives it, with the last call.
struct calls {
  std::mutex mutex{};
  std::condition_variable none_posts{};
  std::map<std::uint64_t, std::shared_ptr<pending>> open{};  ///< with what belongs to the context
  std::uint64_t latest = 0;
  std::size_t posting = 0;  ///< threads that use the context; none after its end
  bool ended = false;
  ::pid_t const process = ::getpid();

  /// A forked child has copies of all, and no other thread: a mutex may be locked for ever.
  bool forked() const noexcept { return ::getpid() != process; }
};

/// Tells the calls of a context of its end.
class service final : public net::execution_context::service {
 public:
  inline static net::execution_context::id id{};
  explicit service(net::execution_context& c) : net::execution_context::service(c) {}
  service(service const&) = delete;
  service& operator=(service const&) = delete;
  ~service() override { end(); }
  std::shared_ptr<calls> const& of_context() const noexcept { return calls_; }

 private:
  void shutdown() noexcept override { end(); }
  /// The parent's calls stay as they are. They keep themselves.
  void notify_fork(net::execution_context::fork_event e) override {
    if (e == net::execution_context::fork_child) calls_ = std::make_shared<calls>();
  }
  void end() noexcept {
    if (calls_->forked()) return;
    std::unique_lock lock(calls_->mutex);
    calls_->ended = true;
    calls_->none_posts.wait(lock, [this] { return calls_->posting == 0; });
    auto const open = std::exchange(calls_->open, {});
    lock.unlock();
    for (auto const& one : open) one.second->end();
  }
  std::shared_ptr<calls> calls_ = std::make_shared<calls>();
};

/// @return null for an executor that has no context: nothing says when it ends
template <class Executor>
std::shared_ptr<calls> calls_at(Executor const& where) {
  using context = net::execution::context_as_t<net::execution_context&>;
  if constexpr (net::can_query<Executor const&, context>::value) {
    return net::use_service<service>(net::query(where, context())).of_context();
  } else if constexpr (requires {
                         { where.context() } -> std::convertible_to<net::execution_context&>;
                       }) {
    return net::use_service<service>(static_cast<net::execution_context&>(where.context())).of_context();
  } else {
    return nullptr;
  }
}

/// What is posted.
class turn {
 public:
  explicit turn(std::shared_ptr<pending> what) noexcept : what_(std::move(what)) {}
  turn(turn&&) noexcept = default;
  turn& operator=(turn&&) = delete;
  ~turn() {
    if (what_) what_->refuse();
  }
  void operator()() {
    auto const what = std::move(what_);
    what->run();
  }

 private:
  std::shared_ptr<pending> what_;
};

/// A call. The states of its handler: here, called, destroyed. `target_` is null after the first.
template <class Result, class Handler>
class operation final : public pending {
  using place = typename net::associated_executor<Handler>::type;

 public:
  operation(Handler h, std::stop_source s)
      : target_(std::make_unique<target>(std::move(h))),
        stop_(std::move(s)),
        calls_(calls_at(target_->where)) {
    if (calls_) return;
    alone_ = true;
    calls_ = std::make_shared<calls>();
  }

  /// @return false after the context's end
  bool list() {
    std::lock_guard const guard(calls_->mutex);
    if (calls_->ended) return false;
    number_ = ++calls_->latest;
    if (!alone_) calls_->open.emplace(number_, this->shared_from_this());
    return true;
  }
  /// The library has begun the call, or thrown.
  void has_begun(error_code why_not) {
    std::unique_lock lock(calls_->mutex);
    begun_ = true;
    why_not_ = why_not;
    if (abandoned_ && may_post()) post(std::move(lock));
  }
  void post(posted p) {
    std::unique_lock lock(calls_->mutex);
    if (!may_post()) return;
    posted_.emplace(std::move(p));
    post(std::move(lock));
  }
  void complete(error_code e, Result r) {
    std::unique_lock lock(calls_->mutex);
    if (!target_) return;
    auto mine = std::move(target_);
    calls_->open.erase(number_);
    lock.unlock();
    auto handler = std::move(mine->handler);
    mine.reset();
    std::move(handler)(e, std::move(r));
  }
  /// The library destroys its handler without a call: the lock_manager has ended, and could not wait. The
  /// handler is called with an error then, as Asio's are.
  void abandon() noexcept {
    if (calls_->forked()) return;
    std::unique_lock lock(calls_->mutex);
    if (refused_) return;
    abandoned_ = true;
    if (begun_ && may_post()) post(std::move(lock));
  }

 private:
  /// What belongs to the context.
  struct target {
    explicit target(Handler h)
        : handler(std::move(h)), where(net::get_associated_executor(handler)), work(where) {}
    Handler handler;
    place where;
    net::executor_work_guard<place> work;
  };

  bool may_post() const noexcept { return target_ && !calls_->ended; }
  /// The context's end waits for this.
  void post(std::unique_lock<std::mutex> lock) noexcept {
    ++calls_->posting;
    ++posting_;
    {
      auto const where = target_->where;
      lock.unlock();
      try {
        net::post(where, turn(this->shared_from_this()));
      } catch (...) {  // no memory: refuse() has noted it
      }
    }
    lock.lock();
    std::optional<posted> refused;
    if (--posting_ == 0 && refused_ && target_) {
      refused.swap(posted_);
      target_->work.reset();
    }
    if (--calls_->posting == 0) calls_->none_posts.notify_all();
    lock.unlock();
  }
  void run() override {
    if (calls_->forked()) return;
    std::unique_lock lock(calls_->mutex);
    auto what = std::exchange(posted_, std::nullopt);
    lock.unlock();
    if (what) return (*what)();
    complete(why_not_, nothing<Result>());
  }
  /// By the thread that posts, if there is no memory: the handler waits for the context's end, as the thread
  /// is none of the program's. Otherwise by an executor that runs nothing any more.
  void refuse() noexcept override {
    if (calls_->forked()) return;
    std::unique_lock lock(calls_->mutex);
    refused_ = true;
    if (posting_ > 0) return;
    auto const what = std::exchange(posted_, std::nullopt);
    auto const mine = std::move(target_);
    calls_->open.erase(number_);
    lock.unlock();
  }
  void end() noexcept override {
    std::unique_lock lock(calls_->mutex);
    auto what = std::exchange(posted_, std::nullopt);
    auto mine = std::move(target_);
    lock.unlock();
    (void)stop_.request_stop();
    what.reset();
    mine.reset();
  }

  std::unique_ptr<target> target_;
  std::stop_source stop_;
  std::shared_ptr<calls> calls_;  ///< its mutex guards all that follows, and target_
  bool alone_ = false;
  std::uint64_t number_ = 0;
  bool begun_ = false;
  bool abandoned_ = false;
  bool refused_ = false;
  std::size_t posting_ = 0;
  std::optional<posted> posted_{};
  error_code why_not_{};
};

/// Whether a stopped call says so by its result, or brings an empty one.
enum class stopped { says_so, brings_nothing };

/// What the library calls.
template <class Result, stopped How, class Handler>
class completion final : public async_handler<Result> {
 public:
  completion(std::shared_ptr<operation<Result, Handler>> of, std::stop_token stop) noexcept
      : of_(std::move(of)), stop_(std::move(stop)) {}
  ~completion() override {
    if (of_) of_->abandon();
  }
  void call(std::exception_ptr e, Result r) override {
    auto const of = std::move(of_);
    auto code = e ? code_of(e) : error_code();
    if constexpr (How == stopped::says_so) {
      if (!e && aborted(r)) code = net::error::operation_aborted;
    } else {
      if (!e && !r && stop_.stop_requested()) code = net::error::operation_aborted;
    }
    of->complete(code, std::move(r));
  }

 private:
  std::shared_ptr<operation<Result, Handler>> of_;
  std::stop_token stop_;
};

/// Begins a call when Asio has made a handler of the token.
template <class Result, stopped How>
struct initiation {
  async_start<Result> begin;

  template <class Handler>
  void operator()(Handler handler) const {
    std::stop_source stop;
#ifdef ROWLOCK_ASIO_HAS_SLOTS
    auto slot = net::get_associated_cancellation_slot(handler);
#endif
    auto const call = std::make_shared<operation<Result, Handler>>(std::move(handler), stop);
    if (!call->list()) return;
#ifdef ROWLOCK_ASIO_HAS_SLOTS
    if (slot.is_connected()) slot.assign([stop](auto) mutable { (void)stop.request_stop(); });
#endif
    error_code why_not = net::error::operation_aborted;
    try {
      begin(executor([call](posted p) { call->post(std::move(p)); }),
            std::make_unique<completion<Result, How, Handler>>(call, stop.get_token()), stop.get_token());
    } catch (...) {
      why_not = code_of(std::current_exception());
    }
    call->has_begun(why_not);
  }
};

struct adapter {
  static constexpr auto brings_nothing = stopped::brings_nothing;

  /// `make` returns an async_start<Result>. What it throws the handler gets.
  template <class Result, stopped How = stopped::says_so, class Make, class Token>
  static auto start(Make const& make, Token&& token) {
    async_start<Result> begin;
    try {
      begin = make();
    } catch (...) {
      begin = [e = std::current_exception()](auto&&...) { std::rethrow_exception(e); };
    }
    return net::async_initiate<Token, void(error_code, Result)>(initiation<Result, How>{std::move(begin)},
                                                                token);
  }
};

}  // namespace ROWLOCK_ASIO

template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto basic_mutex::async_acquire(Token&& token) {
  return Asio::template start<acquisition>([&] { return async({}); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto basic_mutex::async_acquire_for(std::chrono::nanoseconds timeout, Token&& token) {
  return Asio::template start<acquisition>([&] { return async({.timeout = timeout}); },
                                           std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto basic_mutex::async_try_acquire(Token&& token) {
  return Asio::template start<acquisition>([&] { return async({.one_attempt = true}); },
                                           std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto shared_mutex::async_acquire_shared(Token&& token) {
  return readers_.template async_acquire<Token, Asio>(std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto shared_mutex::async_acquire_shared_for(std::chrono::nanoseconds timeout, Token&& token) {
  return readers_.template async_acquire_for<Token, Asio>(timeout, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto shared_mutex::async_try_acquire_shared(Token&& token) {
  return readers_.template async_try_acquire<Token, Asio>(std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto semaphore::async_acquire(std::int64_t units, Token&& token) {
  return Asio::template start<acquisition>([&] { return async(units, {}); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto semaphore::async_acquire_for(std::chrono::nanoseconds timeout, std::int64_t units, Token&& token) {
  return Asio::template start<acquisition>([&] { return async(units, {.timeout = timeout}); },
                                           std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto semaphore::async_try_acquire(std::int64_t units, Token&& token) {
  return Asio::template start<acquisition>([&] { return async(units, {.one_attempt = true}); },
                                           std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_release(Token&& token) {
  return Asio::template start<release_result>(
      [this]() -> async_start<release_result> {
        return [this](executor where, std::unique_ptr<async_handler<release_result>> h,
                      std::stop_token const&) { async_release_with(std::move(where), std::move(h)); };
      },
      std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto basic_mutex::async_wait_until_free_for(std::chrono::nanoseconds timeout, Token&& token) {
  return Asio::template start<bool, Asio::brings_nothing>([&] { return async_until_free(timeout); },
                                                          std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_extend(std::chrono::milliseconds duration, Token&& token) {
  return Asio::template start<bool>([&] { return extending(duration); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_set_note(std::string const& note, Token&& token) {
  return Asio::template start<bool>([&] { return noting(note); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_done(std::chrono::milliseconds keep_for, std::string const& result, Token&& token) {
  return Asio::template start<bool>([&] { return recording(keep_for, result); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_try_upgrade(Token&& token) {
  return Asio::template start<std::optional<held_lock>>([&] { return exchanging(true); },
                                                        std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_downgrade(Token&& token) {
  return Asio::template start<std::optional<held_lock>>([&] { return exchanging(false); },
                                                        std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_lock::async_lost(Token&& token) const {
  return Asio::template start<std::optional<loss_reason>, Asio::brings_nothing>([&] { return ending(); },
                                                                                std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto lock_manager::async_acquire_all(std::reference_wrapper<std::vector<std::string> const> names,
                                     std::reference_wrapper<mutex_options const> options, Token&& token) {
  return Asio::template start<acquisition_of_all>([&] { return async_all(names, options, {}); },
                                                  std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto lock_manager::async_acquire_all_for(std::reference_wrapper<std::vector<std::string> const> names,
                                         std::chrono::nanoseconds timeout,
                                         std::reference_wrapper<mutex_options const> options, Token&& token) {
  return Asio::template start<acquisition_of_all>(
      [&] { return async_all(names, options, {.timeout = timeout}); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto lock_manager::async_try_acquire_all(std::reference_wrapper<std::vector<std::string> const> names,
                                         std::reference_wrapper<mutex_options const> options, Token&& token) {
  return Asio::template start<acquisition_of_all>(
      [&] { return async_all(names, options, {.one_attempt = true}); }, std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto held_locks::async_release(Token&& token) {
  return Asio::template start<release_result>(
      [this]() -> async_start<release_result> {
        return [this](executor where, std::unique_ptr<async_handler<release_result>> h,
                      std::stop_token const&) { async_release_with(std::move(where), std::move(h)); };
      },
      std::forward<Token>(token));
}
template <completion_token Token, class Asio = ROWLOCK_ASIO::adapter>
auto lock_manager::async_close(Token&& token) {
  return Asio::template start<bool>(
      [this]() -> async_start<bool> {
        return [this](executor where, std::unique_ptr<async_handler<bool>> h, std::stop_token const&) {
          close_with(std::move(where), std::move(h));
        };
      },
      std::forward<Token>(token));
}

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

#undef ROWLOCK_ASIO
#undef ROWLOCK_ASIO_HAS_SLOTS
