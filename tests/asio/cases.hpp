#pragma once
// The cases of <rowlock/asio.hpp>, for the Asio that the including file names: `net`, `net_error_code`,
// ASIO_CASES_NAME, ASIO_CASES_HAVE_SLOTS (of cancellation), ASIO_CASES_HAVE_COROUTINES.

#include <rowlock/rowlock.hpp>
//
#include <rowlock/asio.hpp>  // which may come last

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "contract/fixture.hpp"

using namespace rowlock;
using namespace rowlock::test;

#define ASIO_CASE(text) CONTRACT_CASE(ASIO_CASES_NAME ": " text)

namespace {

/// What a handler was given.
struct outcome {
  int calls = 0;
  std::shared_ptr<int> alive = std::make_shared<int>();
  net_error_code code;
  std::optional<acquisition> came;
  std::thread::id ran_on;

  /// A handler that can only be moved.
  auto handler() {
    return [this, lives = alive, only_moved = std::make_unique<int>()](net_error_code e, acquisition a) {
      ++calls;
      code = e;
      came.emplace(std::move(a));
      ran_on = std::this_thread::get_id();
    };
  }
  /// (Boost 1.74's bind_executor() knows not all executors.)
  template <class Executor>
  auto on(Executor const& where) {
    return net::executor_binder<decltype(handler()), Executor>(net::executor_arg_t(), where, handler());
  }
  auto on(net::io_context& where) { return on(where.get_executor()); }
  auto on(net::thread_pool& where) { return on(where.get_executor()); }
  bool has() const { return came && *came; }
  /// Whether its handler was destroyed, called or not.
  bool handler_has_gone() const { return alive.use_count() == 1; }
};

/// Runs what comes next, which can take its time.
void turn(net::io_context& io) {
  io.restart();
  REQUIRE(io.run_one_for(60s) == 1);
}

struct notes {
  std::atomic<int> posted{0};
  std::function<void()> before{};
};

/// An executor that tells when something was posted, and may do something before that.
template <bool HasContext>
class noticed_if {
 public:
  noticed_if(net::io_context& io, notes& n) : io_(&io), notes_(&n) {}
  net::execution_context& query(net::execution::context_t) const noexcept requires HasContext { return *io_; }
  static constexpr net::execution::blocking_t::never_t query(net::execution::blocking_t) noexcept {
    return {};
  }
  template <class F>
  void execute(F f) const {
    if (notes_->before) notes_->before();
    net::post(*io_, std::move(f));
    ++notes_->posted;
  }
  bool operator==(noticed_if const&) const noexcept = default;

 private:
  net::io_context* io_;
  notes* notes_;
};

using noticed = noticed_if<true>;

/// Does something when its context shuts down. Those made later are shut down first.
template <int Which>
class at_shutdown final : public net::execution_context::service {
 public:
  inline static net::execution_context::id id;
  using net::execution_context::service::service;
  std::function<void()> then;

 private:
  void shutdown() noexcept override {
    if (then) then();
  }
};

}  // namespace

ASIO_CASE("a handler runs on its executor, never inside the call, and run() waits for it") {
  stranger other(f);
  net::io_context io;
  std::atomic<bool> goes_on{false};
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take") CHECK(eventually([&] { return goes_on.load(); }));
  };
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  outcome got;
  x.async_acquire(got.on(io));
  CHECK(io.poll() == 0);
  CHECK_FALSE(io.stopped());  // there is work
  CHECK(got.calls == 0);
  goes_on = true;
  io.run();
  REQUIRE(got.calls == 1);
  REQUIRE(got.has());
  CHECK_FALSE(got.code);
  CHECK(got.ran_on == std::this_thread::get_id());
  CHECK(got.handler_has_gone());
  CHECK_FALSE(other.sees_free("x"));
  int released = 0;
  (*got.came)->async_release(net::bind_executor(io, [&](net_error_code e, release_result r) {
    CHECK_FALSE(e);
    CHECK(r == release_result::released);
    ++released;
  }));
  io.restart();
  io.run();
  CHECK(released == 1);
  CHECK(other.sees_free("x"));
}

ASIO_CASE("a handler that names no executor runs on the system's, and futures do") {
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::promise<std::thread::id> ran_on;
  x.async_acquire([&](net_error_code, acquisition a) {
    CHECK(a);
    ran_on.set_value(std::this_thread::get_id());
  });
  CHECK(ran_on.get_future().get() != std::this_thread::get_id());
  auto lock = x.async_acquire_for(60s, net::use_future).get();
  REQUIRE(lock);
  CHECK(x.async_try_acquire(net::use_future).get().status() == acquire_status::busy);
  CHECK_FALSE(x.async_acquire_for(1ms, net::use_future).get());
  CHECK(lock->async_release(net::use_future).get() == release_result::released);
  CHECK(x.async_try_acquire(net::use_future).get());
  x.async_acquire(net::detached);
  CHECK(x.acquire());
}

ASIO_CASE("what a call throws is the handler's error_code") {
  net::io_context io;
  auto m = f.manager();
  outcome refused;
  CHECK_NOTHROW(m->make_recursive_mutex("r").async_acquire(refused.on(io)));
  CHECK(refused.calls == 0);
  turn(io);
  CHECK(refused.calls == 1);
  CHECK(refused.code == errc::unsupported);
  CHECK(refused.code != errc::closed);
  CHECK(refused.code.category().name() == std::string("rowlock"));
  CHECK_FALSE(refused.has());
  auto x = m->make_mutex("x");
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_take") throw error(errc::access_denied, "not you");
  };
  outcome denied;
  x.async_acquire(denied.on(io));
  turn(io);
  CHECK(denied.code == errc::access_denied);
  CHECK(denied.code.message() == make_error_code(errc::access_denied).message());
  CHECK_FALSE(denied.has());
  m.reset();
  outcome late;
  x.async_acquire(late.on(io));
  turn(io);
  CHECK(late.code == errc::closed);
  CHECK(late.code.default_error_condition().value() == ECANCELED);
  CHECK(io.poll() == 0);
}

ASIO_CASE("F17: the manager's end cancels each call once") {
  net::io_context io;
  std::vector<outcome> all(3);
  auto m = f.manager();
  auto x = m->make_mutex("x");
  auto const held = x.acquire();
  for (auto& one : all) x.async_acquire(one.on(io));
  m.reset();
  CHECK(io.poll() == all.size());
  for (auto& one : all) {
    CHECK(one.calls == 1);
    CHECK(one.code == net::error::operation_aborted);
    CHECK_FALSE(one.has());
  }
}

ASIO_CASE("F17: the end of a manager that can't wait for its call, too") {
  stranger other(f);
  REQUIRE(other.take("x"));
  net::io_context io;
  std::atomic<bool> asks{false};
  std::atomic<bool> goes_on{false};
  auto o = f.options;
  o.release_timeout = 10ms;
  auto m = f.manager(o);
  retry_options hangs;
  hangs.policy = [&](int, holder_info const*) {
    asks = true;
    CHECK(eventually([&] { return goes_on.load(); }));
    return std::optional(0ms);
  };
  outcome got;
  m->make_mutex("x", {.retry = hangs}).async_acquire(got.on(io));
  REQUIRE(eventually([&] { return asks.load(); }));
  m.reset();
  CHECK(io.poll() == 0);
  goes_on = true;
  turn(io);
  CHECK(got.calls == 1);
  CHECK(got.code == net::error::operation_aborted);
}

ASIO_CASE("F15: the end of an io_context in which a call waits destroys its handler, and stops the call") {
  stranger other(f);
  outcome got;
  auto const m = f.manager();
  auto held = m->make_mutex("x").acquire();
  REQUIRE(held);
  auto const call = std::make_shared<int>();
  mutex_options known;
  known.on_wait = [call](holder_info const*) {};
  auto const begin = [&](auto handler) {
    m->make_mutex("x", known).async_acquire(std::move(handler));
    known.on_wait = nullptr;
  };
  SUBCASE("of the context itself") {
    net::io_context io;
    begin(got.on(io));
  }
  SUBCASE("of a strand") {
    net::io_context io;
    begin(got.on(net::make_strand(io)));
  }
  SUBCASE("of any executor") {
    net::io_context io;
    begin(got.on(net::any_io_executor(io.get_executor())));
  }
  SUBCASE("of a pool of threads") {
    net::thread_pool pool(2);
    begin(got.on(pool));
  }
  CHECK(got.handler_has_gone());
  CHECK(got.calls == 0);
  CHECK(eventually([&] { return call.use_count() == 1; }));  // nothing of it is left
  CHECK(held->release() == release_result::released);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

ASIO_CASE("F15: the end of an io_context in which a grant is posted gives it back") {
  stranger other(f);
  notes seen;
  outcome got;
  auto io = std::make_unique<net::io_context>();
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  x.async_acquire(got.on(noticed(*io, seen)));
  REQUIRE(eventually([&] { return seen.posted == 1; }));
  CHECK_FALSE(other.sees_free("x"));
  io.reset();
  CHECK(got.handler_has_gone());
  CHECK(got.calls == 0);
  CHECK(eventually([&] { return other.sees_free("x"); }));
  CHECK(x.acquire());
}

ASIO_CASE("F15: the end of an io_context waits for a post") {
  stranger other(f);
  std::atomic<bool> ends{false};
  std::atomic<bool> ended{false};
  notes seen;
  outcome got;
  auto io = std::make_unique<net::io_context>();
  net::use_service<at_shutdown<1>>(*io).then = [&] { ended = true; };
  auto const m = f.manager();
  seen.before = [&] {
    CHECK(eventually([&] { return ends.load(); }));
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    CHECK_FALSE(ended);
  };
  m->make_mutex("x").async_acquire(got.on(noticed(*io, seen)));
  net::use_service<at_shutdown<2>>(*io).then = [&] { ends = true; };
  REQUIRE(eventually([&] { return !other.sees_free("x"); }));
  io.reset();
  CHECK(got.calls == 0);
  CHECK(got.handler_has_gone());
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

ASIO_CASE("F15: nothing is posted to an io_context that destroys handlers at its end") {
  notes seen;
  outcome got;
  auto const call = std::make_shared<int>();
  bool destroyed = false;
  auto const m = f.manager();
  auto const held = m->make_mutex("y").acquire();
  struct gives_back {
    acquisition lock;
    std::function<void()> then;
    ~gives_back() {
      CHECK(lock->release() == release_result::released);
      then();
    }
  };
  {
    net::io_context io;
    std::unique_ptr<gives_back> first(new gives_back{m->make_mutex("x").acquire(), [&] {
                                                       CHECK(
                                                           eventually([&] { return call.use_count() == 1; }));
                                                       CHECK(seen.posted == 0);
                                                       destroyed = true;
                                                     }});
    m->make_mutex("y").async_acquire(
        net::bind_executor(io, [lock = std::move(first)](net_error_code, acquisition) {}));
    mutex_options known;
    known.on_wait = [call](holder_info const*) {};
    m->make_mutex("x", known).async_acquire(got.on(noticed(io, seen)));
  }
  CHECK(destroyed);
  CHECK(got.handler_has_gone());
}

ASIO_CASE("F15: an executor without a context refuses by destroying what was posted") {
  stranger other(f);
  notes seen;
  outcome got;
  auto io = std::make_unique<net::io_context>();
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  x.async_acquire(got.on(noticed_if<false>(*io, seen)));
  REQUIRE(eventually([&] { return seen.posted == 1; }));
  SUBCASE("it runs") {
    turn(*io);
    CHECK(got.has());
    got.came.reset();
  }
  SUBCASE("it does not") {
    io.reset();
    CHECK(got.calls == 0);
  }
  CHECK(got.handler_has_gone());
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

ASIO_CASE("F15: a handler that the end of its io_context destroys may begin a call there, which is none") {
  outcome got;
  int destroyed = 0;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const held = x.acquire();
  struct begins_again {
    mutex* x;
    net::io_context* io;
    outcome* got;
    int* destroyed;
    ~begins_again() {
      ++*destroyed;
      x->async_acquire(got->on(*io));
    }
  };
  {
    net::io_context io;
    auto again = std::unique_ptr<begins_again>(new begins_again{&x, &io, &got, &destroyed});
    x.async_acquire(net::bind_executor(io, [a = std::move(again)](net_error_code, acquisition) {}));
  }
  CHECK(destroyed == 1);
  CHECK(got.handler_has_gone());
  CHECK(got.calls == 0);
}

ASIO_CASE("an io_context that is stopped keeps a posted lock until it runs again, or ends") {
  stranger other(f);
  notes seen;
  outcome got;
  auto io = std::make_unique<net::io_context>();
  auto const m = f.manager();
  m->make_mutex("x").async_acquire(got.on(noticed(*io, seen)));
  io->stop();
  REQUIRE(eventually([&] { return seen.posted == 1; }));
  CHECK(io->run() == 0);
  CHECK(got.calls == 0);
  CHECK_FALSE(other.sees_free("x"));
  SUBCASE("runs again") {
    turn(*io);
    CHECK(got.has());
    got.came.reset();
  }
  SUBCASE("ends") { io.reset(); }
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

LEASE_CASE(ASIO_CASES_NAME ": a lock whose trust has ended before its loop came to it is not seen") {
  stranger other(f);
  notes seen;
  net::io_context io;
  auto const m = f.manager();
  mutex_options options;
  options.ttl = 1s;
  options.renew = false;
  auto x = m->make_mutex("x", options);
  outcome got;
  x.async_acquire(got.on(noticed(io, seen)));
  REQUIRE(eventually([&] { return seen.posted == 1; }));
  auto const first = other.token("x");
  REQUIRE(eventually([&] { return other.take("x", 30s, takeover::clock); }));
  REQUIRE(other.release("x"));
  turn(io);
  CHECK(got.calls == 0);
  REQUIRE(eventually([&] { return seen.posted == 2; }));
  turn(io);
  REQUIRE(got.has());
  CHECK((*got.came)->token().value > first + 1);
}

ASIO_CASE("a forked child runs no handler of its parent's, and can begin calls") {
  notes seen;
  net::io_context io;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  outcome posted;
  outcome waits;
  m->make_mutex("y").async_acquire(posted.on(noticed(io, seen)));
  auto held = x.acquire();
  x.async_acquire(waits.on(io));
  REQUIRE(eventually([&] { return seen.posted == 1; }));
  io.notify_fork(net::execution_context::fork_prepare);
  auto const child = ::fork();
  if (child == 0) {
    io.notify_fork(net::execution_context::fork_child);
    io.poll();
    outcome own;
    x.async_acquire(own.on(io));
    io.poll();
    ::_exit(posted.calls == 0 && waits.calls == 0 && own.calls == 1 && own.code == errc::forked ? 0 : 1);
  }
  io.notify_fork(net::execution_context::fork_parent);
  int status = -1;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  turn(io);
  CHECK(posted.has());
  held = acquisition(acquire_status::busy, {});
  turn(io);
  CHECK(waits.has());
}

LEASE_CASE(ASIO_CASES_NAME ": permits and readers") {
  net::io_context io;
  auto const m = f.manager();
  auto s = m->make_semaphore("s", 2);
  outcome two;
  outcome none;
  outcome one;
  outcome many;
  s.async_acquire(2, two.on(io));
  turn(io);
  REQUIRE(two.has());
  s.async_try_acquire(1, none.on(io));
  turn(io);
  CHECK(none.came->status() == acquire_status::busy);
  CHECK_FALSE(none.code);
  s.async_acquire_for(60s, 1, one.on(io));
  two.came.reset();
  turn(io);
  CHECK(one.has());
  s.async_acquire(3, many.on(io));
  turn(io);
  CHECK(many.code == errc::invalid_argument);
  auto rw = m->make_shared_mutex("rw");
  std::vector<outcome> readers(3);
  outcome writer;
  rw.async_acquire_shared(readers[0].on(io));
  turn(io);
  rw.async_acquire_shared_for(60s, readers[1].on(io));
  turn(io);
  rw.async_try_acquire_shared(readers[2].on(io));
  turn(io);
  for (auto const& r : readers) CHECK(r.has());
  rw.async_try_acquire(writer.on(io));
  turn(io);
  CHECK(writer.came->status() == acquire_status::busy);
  rw.async_acquire(writer.on(io));
  for (auto& r : readers) r.came.reset();
  turn(io);
  CHECK(writer.has());
}

LEASE_CASE(ASIO_CASES_NAME ": what else a lock can be asked for") {
  stranger other(f);
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto lock = x.async_acquire(net::use_future).get();
  REQUIRE(lock);
  CHECK(lock->async_extend(60s, net::use_future).get());
  CHECK(lock->async_set_note("busy", net::use_future).get());
  CHECK(other.read("x")->holder.note == "busy");
  // Not by a future: ThreadSanitizer does not see how libstdc++ counts an exception that two threads have.
  std::promise<bool> refused;
  lock->async_done(1h, "", [&](auto e, bool) { refused.set_value(static_cast<bool>(e)); });
  CHECK(refused.get_future().get());
  CHECK_FALSE(x.async_wait_until_free_for(1ms, net::use_future).get());
  auto ends = lock->async_lost(net::use_future);
  CHECK(lock->async_release(net::use_future).get() == release_result::released);
  CHECK_FALSE(ends.get());
  CHECK(x.async_wait_until_free_for(60s, net::use_future).get());
  auto rw = m->make_shared_mutex("rw");
  auto reader = rw.async_acquire_shared(net::use_future).get();
  auto writer = reader->async_try_upgrade(net::use_future).get();
  REQUIRE(writer);
  CHECK_FALSE(rw.try_acquire_shared());
  CHECK(writer->async_downgrade(net::use_future).get());
}

LEASE_CASE(ASIO_CASES_NAME ": several locks, and the end of the manager") {
  stranger other(f);
  std::vector<std::string> const names{"a", "b"};
  mutex_options const options;
  auto const m = f.manager();
  auto both = m->async_acquire_all(names, options, net::use_future).get();
  REQUIRE(both);
  CHECK_FALSE(other.sees_free("b"));
  CHECK(m->async_try_acquire_all(names, options, net::use_future).get().status() == acquire_status::busy);
  CHECK_FALSE(m->async_acquire_all_for(names, 1ms, options, net::use_future).get());
  CHECK(both->async_release(net::use_future).get() == release_result::released);
  CHECK(other.sees_free("b"));
  CHECK(m->async_close(net::use_future).get());
}

#ifdef ASIO_CASES_HAVE_SLOTS
ASIO_CASE("F14: a slot cancels, by the handler's executor") {
  net::io_context io;
  net::cancellation_signal stop;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto held = x.acquire();
  REQUIRE(held);
  outcome got;
  x.async_acquire(net::bind_cancellation_slot(stop.slot(), got.on(io)));
  CHECK(io.poll() == 0);
  stop.emit(net::cancellation_type::total);
  CHECK(got.calls == 0);
  turn(io);
  CHECK(got.calls == 1);
  CHECK(got.code == net::error::operation_aborted);
  CHECK_FALSE(got.has());
  CHECK(held->release() == release_result::released);
  CHECK(x.try_acquire());
  CHECK(io.poll() == 0);
}

ASIO_CASE("F15: a slot that is used after its call has ended does nothing") {
  net::cancellation_signal stop;
  outcome got;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  {
    net::io_context io;
    x.async_acquire(net::bind_cancellation_slot(stop.slot(), got.on(io)));
    SUBCASE("called") { turn(io); }
    SUBCASE("destroyed") {}
  }
  stop.emit(net::cancellation_type::terminal);
  if (got.has()) CHECK((*got.came)->valid());
}

ASIO_CASE("F5: no cancellation reaches a release") {
  stranger other(f);
  std::atomic<bool> goes_on{false};
  std::atomic<bool> asked{false};
  net::io_context io;
  net::cancellation_signal stop;
  auto const m = f.manager();
  auto lock = m->make_mutex("x").acquire();
  REQUIRE(lock);
  f.probe->before = [&](std::string const& s) {
    if (s == "lock_release" && !asked.exchange(true)) CHECK(eventually([&] { return goes_on.load(); }));
  };
  int calls = 0;
  lock->async_release(net::bind_cancellation_slot(
      stop.slot(), net::bind_executor(io, [&](net_error_code e, release_result r) {
        ++calls;
        CHECK_FALSE(e);
        CHECK(r == release_result::released);
      })));
  stop.emit(net::cancellation_type::terminal);
  CHECK(io.poll() == 0);
  goes_on = true;
  turn(io);
  CHECK(calls == 1);
  CHECK(other.sees_free("x"));
}

LEASE_CASE(ASIO_CASES_NAME ": F14: a slot cancels calls whose result can't say so") {
  net::io_context io;
  net::cancellation_signal stop;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto const lock = x.acquire();
  REQUIRE(lock);
  net_error_code free_code;
  net_error_code lost_code;
  SUBCASE("until it is free") {
    x.async_wait_until_free_for(
        60s, net::bind_cancellation_slot(
                 stop.slot(), net::bind_executor(io, [&](net_error_code e, bool) { free_code = e; })));
    stop.emit(net::cancellation_type::total);
    turn(io);
    CHECK(free_code == net::error::operation_aborted);
  }
  SUBCASE("until it is lost") {
    lock->async_lost(net::bind_cancellation_slot(
        stop.slot(),
        net::bind_executor(io, [&](net_error_code e, std::optional<loss_reason>) { lost_code = e; })));
    stop.emit(net::cancellation_type::total);
    turn(io);
    CHECK(lost_code == net::error::operation_aborted);
  }
  CHECK(lock->valid());
}

ASIO_CASE("deferred operations begin when they are called, also without their mutex") {
  auto const m = f.manager();
  auto deferred = m->make_mutex("x").async_acquire(net::experimental::deferred);
  auto again = m->make_mutex("x").async_try_acquire(net::experimental::deferred);
  auto lock = std::move(deferred)(net::use_future).get();
  REQUIRE(lock);
  CHECK(std::move(again)(net::use_future).get().status() == acquire_status::busy);
}
#endif

#ifdef ASIO_CASES_HAVE_COROUTINES
namespace {

net::awaitable<void> takes(mutex& x, std::vector<std::int64_t>& tokens) {
  auto lock = co_await x.async_acquire(net::use_awaitable);
  tokens.push_back(lock->token().value);
  auto const released = co_await lock->async_release(net::use_awaitable);
  CHECK(released == release_result::released);
}

}  // namespace

ASIO_CASE("coroutines of a loop take a lock one after the other") {
  stranger other(f);
  net::io_context io;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  std::vector<std::int64_t> tokens;
  for (int i = 0; i < 5; ++i) net::co_spawn(io, takes(x, tokens), net::detached);
  io.run();
  REQUIRE(tokens.size() == 5);
  CHECK(std::is_sorted(tokens.begin(), tokens.end()));
  CHECK(other.sees_free("x"));
}

ASIO_CASE("F16: coroutines that wait are destroyed with their loop") {
  stranger other(f);
  std::vector<std::int64_t> tokens;
  notes seen;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  auto held = x.acquire();
  REQUIRE(held);
  {
    net::io_context io;
    for (int i = 0; i < 5; ++i) net::co_spawn(io, takes(x, tokens), net::detached);
    io.poll();
    SUBCASE("in line") {}
    SUBCASE("one has the lock") {
      CHECK(held->release() == release_result::released);
      REQUIRE(eventually([&] {
        io.poll_one();
        return !tokens.empty();
      }));
    }
    tokens.clear();
  }
  CHECK(tokens.empty());
  held = acquisition(acquire_status::busy, {});
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

#ifdef ASIO_CASES_HAVE_SLOTS
namespace {

net::awaitable<void> takes_as_tuple(mutex& x, bool& took) {
  auto [e, lock] = co_await x.async_acquire_for(60s, net::experimental::as_tuple(net::use_awaitable));
  took = !e && lock;
}

/// Which of the two came first: the lock, or the timer, which is cancelled when its time has come.
net::awaitable<void> takes_until(mutex& x, net::steady_timer& timer, std::optional<std::size_t>& which) {
  using namespace net::experimental::awaitable_operators;
  net_error_code ignored;
  auto const r = co_await (x.async_acquire(net::use_awaitable) ||
                           timer.async_wait(net::redirect_error(net::use_awaitable, ignored)));
  which = r.index();
}

}  // namespace

ASIO_CASE("a coroutine gets an error and a lock") {
  net::io_context io;
  auto const m = f.manager();
  auto x = m->make_mutex("x");
  bool took = false;
  net::co_spawn(io, takes_as_tuple(x, took), net::detached);
  io.run();
  CHECK(took);
}

ASIO_CASE("F4: `||` drops a lock that comes after the timer, and another one can have it") {
  stranger other(f);
  net::io_context io;
  net::steady_timer timer(io, std::chrono::steady_clock::time_point::max());
  std::atomic<bool> asked{false};
  std::atomic<bool> goes_on{false};
  notes seen;
  outcome next;
  std::optional<std::size_t> which;
  auto o = f.options;
  o.connections = 1;
  auto const m = f.manager(o);
  auto x = m->make_mutex("x");
  REQUIRE(x.try_acquire());  // there is a row from now on
  f.probe->after = [&](std::string const& s) {
    if (s == "lock_take" && !asked.exchange(true)) CHECK(eventually([&] { return goes_on.load(); }));
  };
  net::co_spawn(io, takes_until(x, timer, which), net::detached);
  io.poll();
  CHECK_FALSE(which);
  REQUIRE(eventually([&] { return asked.load(); }));
  CHECK_FALSE(other.sees_free("x"));  // granted, without a reply
  timer.cancel();
  SUBCASE("before the reply") {
    while (!which) turn(io);
    CHECK_FALSE(other.sees_free("x"));
    goes_on = true;
  }
  SUBCASE("when the lock is posted, too") {
    goes_on = true;
    m->make_mutex("y").async_acquire(next.on(noticed(io, seen)));  // of one connection, so it comes later
    REQUIRE(eventually([&] { return seen.posted == 1; }));
    io.run();
    CHECK(next.has());
  }
  REQUIRE(which);
  CHECK(*which == 1);
  CHECK(eventually([&] { return other.sees_free("x"); }));
  CHECK(other.take("x"));
}
#endif
#endif
