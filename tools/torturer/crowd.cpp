// A turn of a coroutine: it asks by an asynchronous call, which may be cancelled, refused or left; what it
// gets it keeps for a while, and lets go of in one of the ways that there are.
#include "crowd.hpp"

#include <atomic>
#include <coroutine>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "event_loop/event_loop.hpp"
#include "taker.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;
using tool::detached_task;
using tool::event_loop;

/// Where a continuation runs.
enum class place {
  loop,     ///< as soon as the loop comes to it
  late,     ///< on a loop that is busy for longer than that
  library,  ///< on the library's thread
  thrown,   ///< nowhere: the executor throws
  dropped,  ///< nowhere: the executor destroys it
};

executor executor_of(place where, event_loop& loop, std::chrono::milliseconds late) {
  switch (where) {
    case place::late:
      return executor([&loop, late](posted p) { loop.post_after(late, std::move(p)); });
    case place::library:
      return on_library_thread;
    case place::thrown:
      return executor([](posted const&) { throw std::runtime_error("this loop has ended"); });
    case place::dropped:
      return executor([](posted const&) {});
    default:
      return loop.executor();
  }
}

bool refuses(place where) { return where == place::thrown || where == place::dropped; }

/// Whether this thread begins a call just now: a handler that is destroyed then was refused by the call
/// itself, which throws.
thread_local bool begins = false;

/// What a coroutine awaits: `begin` begins a call, whose handler resumes it.
template <class Result>
class reply {
 public:
  /// Move-only. If it is destroyed without a call, the coroutine goes on without a result.
  class handler {
   public:
    explicit handler(reply& to) noexcept : to_(&to) {}
    handler(handler&& other) noexcept : to_(std::exchange(other.to_, nullptr)) {}
    handler& operator=(handler&&) = delete;
    ~handler() {
      if (to_ != nullptr && !begins) to_->whom_.resume();
    }
    void operator()(std::exception_ptr e, Result r) {
      auto& to = *std::exchange(to_, nullptr);
      to.come(std::move(e), std::move(r));
      to.whom_.resume();
    }

   private:
    reply* to_;
  };

  void come(std::exception_ptr e, Result r) {
    failed = std::move(e);
    came.emplace(std::move(r));
  }

  bool await_ready() const noexcept { return false; }
  /// All can be over before it returns.
  [[gnu::noinline]] void await_suspend(std::coroutine_handle<> whom) {
    whom_ = whom;
    auto const begin = begin_;
    struct mark {
      mark() { begins = true; }
      ~mark() { begins = false; }
    } const now;
    begin(*this);
  }
  void await_resume() const {
    if (failed) std::rethrow_exception(failed);
  }

  explicit reply(std::function<void(reply&)> begin) : begin_(std::move(begin)) {}
  void resume() const { whom_.resume(); }

  std::exception_ptr failed{};
  std::optional<Result> came{};  ///< empty: refused

 private:
  std::function<void(reply&)> begin_;
  std::coroutine_handle<> whom_{};
};

/// A coroutine that awaits the call itself, and then resumes the one that awaits the reply.
class inner {
 public:
  struct promise_type {
    template <class... Args>
    explicit promise_type(reply<acquisition>& r, Args const&...) : to(&r) {}
    inner get_return_object() { return inner(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct ends {
        bool await_ready() noexcept { return false; }
        [[gnu::noinline]] void await_suspend(std::coroutine_handle<promise_type> frame) noexcept {
          auto const* const whom = frame.promise().to;
          frame.destroy();
          whom->resume();
        }
        void await_resume() noexcept {}
      };
      return ends{};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { to->failed = std::current_exception(); }
    reply<acquisition>* to;
  };
  /// While it waits, on its loop.
  void destroy() { frame_.destroy(); }

 private:
  explicit inner(std::coroutine_handle<promise_type> f) : frame_(f) {}
  std::coroutine_handle<promise_type> frame_;
};

inner awaits(reply<acquisition>& to, taker& t, std::int64_t units, std::chrono::milliseconds patience,
             executor where, std::stop_token stop) {
  auto got = co_await t.take_later(units, patience, where, stop);
  to.come(nullptr, std::move(got));
}

/// Runs what blocks on a thread of its own.
struct elsewhere {
  event_loop& loop;
  std::function<void()> what;
  std::jthread thread{};
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> whom) {
    thread = std::jthread([this, whom] {
      what();
      loop.post([whom] { whom.resume(); });
    });
  }
  void await_resume() const noexcept {}
};

/// What is drawn for one call.
struct manner {
  std::chrono::milliseconds patience{};
  place where = place::loop;
  std::chrono::milliseconds late{};
  std::optional<std::chrono::milliseconds> cancel_after{};
  bool awaited = false;  ///< by a coroutine, else a handler is called
  std::optional<std::chrono::milliseconds> leave_after{};
};

class coroutine final : public worker {
 public:
  coroutine(desk const& d, std::uint32_t thread, event_loop& loop) : worker(d, thread), loop_(loop) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(d.o.names); ++i)
      takers_.emplace_back(d.manager, d.o, name_of(i), how());
  }

  /// Takes turns until `stop`, and calls `end` on the loop's thread.
  detached_task work(std::stop_token stop, std::function<void()> end) {
    while (!stop.stop_requested()) {
      auto const which = draw(takers_.size());
      auto const r =
          begin(which, takers_[which].draw_units([this](std::size_t below) { return draw(below); }));
      write(r, happening::asks);
      auto const how = draw_manner();
      reply<acquisition> asked([&](auto& it) { ask(takers_[which], r.units, how, stop, it); });
      std::optional<told> held;
      std::exception_ptr failed;
      try {
        co_await asked;
        *waits_ = false;
        // Where the continuation runs.
        if (asked.came && *asked.came) held.emplace(*this, r, **asked.came);
      } catch (...) {
        *waits_ = false;
        failed = std::current_exception();
      }
      if (!held) note(r, failed, asked.came);
      auto const rest = failed ? event_loop::clock::duration(pause_after_failure) : 0ms;
      co_await loop_.pause(rest);  // from the library's thread to the loop's
      end_.reset();
      if (!held) continue;

      auto& lock = **asked.came;
      bool given_back = false;
      if (writes(desk_.o.what)) {
        elsewhere section{loop_, [&] { given_back = run_section(r, *held, lock); }};
        co_await section;
      } else {
        auto const enough = boot_clock::now() + section_time();
        for (held->look(); boot_clock::now() < enough && lock.valid(); held->look())
          co_await loop_.pause(1ms);
      }
      held.reset();
      if (given_back) continue;
      write(r, happening::gives_back);
      if (draw(2) == 0) {
        let_go(r, asked.came);
        continue;
      }
      auto const place = draw_place();
      auto const there = executor_of(place, loop_, draw_delay());
      reply<release_result> back(
          [&](auto& it) { lock.async_release(there, reply<release_result>::handler(it)); });
      std::string said = "refused";
      try {
        if (!refuses(place) && draw(2) == 0) {
          auto const result = co_await lock.async_release(there);
          said = to_string(result);
        } else {
          co_await back;
          if (back.came) said = to_string(*back.came);
        }
      } catch (std::exception const& e) {
        said = e.what();
      }
      write(r, happening::gave_back, said);
      co_await loop_.pause(0ms);
    }
    end();
  }

 private:
  place draw_place() {
    switch (draw(40)) {
      case 0:
        return place::thrown;
      case 1:
        return place::dropped;
      case 2:
        return place::late;
      default:
        return draw(6) == 0 ? place::library : place::loop;
    }
  }
  /// A moment, or up to one and a half ttl.
  std::chrono::milliseconds draw_delay() {
    auto const most = draw(4) == 0 ? desk_.o.ttl + desk_.o.ttl / 2 : 20ms;
    return std::chrono::milliseconds(draw(static_cast<std::size_t>(most.count())));
  }
  /// Before the database can have answered, or later.
  std::chrono::milliseconds draw_moment() { return std::chrono::milliseconds(draw(draw(2) == 0 ? 3 : 100)); }

  manner draw_manner() {
    manner m;
    m.patience = patience();
    m.where = draw_place();
    m.late = draw_delay();
    if (draw(4) == 0) m.cancel_after = draw_moment();
    m.awaited = !refuses(m.where) && draw(2) == 0;
    // A frame may be destroyed on its loop alone.
    if (m.awaited && m.where != place::library && draw(5) == 0) m.leave_after = draw_moment();
    return m;
  }

  /// The coroutine can go on, on another thread, before this returns.
  void ask(taker& t, std::int64_t units, manner how, std::stop_token const& ends, reply<acquisition>& it) {
    std::stop_source cancelled;
    auto const waits = waits_ = std::make_shared<std::atomic<bool>>(true);
    end_.emplace(ends, forward{cancelled});
    auto const where = executor_of(how.where, loop_, how.late);
    auto const stop = cancelled.get_token();
    if (how.cancel_after)
      loop_.post_after(*how.cancel_after, [cancelled]() mutable { (void)cancelled.request_stop(); });
    if (!how.awaited) return t.take_later(units, how.patience, where, stop, reply<acquisition>::handler(it));
    auto frame = awaits(it, t, units, how.patience, where, stop);
    if (!how.leave_after || !*waits) return;
    loop_.post_after(*how.leave_after, [waits, frame, &it]() mutable {
      if (!waits->exchange(false)) return;
      frame.destroy();
      it.resume();
    });
  }

  void note(record const& r, std::exception_ptr const& failed, std::optional<acquisition> const& came) const {
    if (!failed) return write(r, happening::got_none, came ? to_string(came->status()) : "refused, or left");
    try {
      std::rethrow_exception(failed);
    } catch (std::exception const& e) {
      note_failure({r}, e);
    }
  }

  /// @return whether the section has let go of the lock
  bool run_section(record const& r, told& held, held_lock& lock) {
    bool given_back = false;
    auto const goes_on = [&] {
      held.look();
      return lock.valid();
    };
    section_->run(
        lock, r.name, [&] { think(goes_on); }, [&] { think_briefly(goes_on); },
        [&] {
          given_back = true;
          write(r, happening::gives_back);
          if (draw(2) == 0) return write(r, happening::gave_back, to_string(lock.release()));
          lock.release_later();
          write(r, happening::gave_back, "later");
        });
    return given_back;
  }

  /// In one of the ways that tell nothing, or block.
  void let_go(record const& r, std::optional<acquisition>& what) {
    switch (draw(4)) {
      case 0:
        return write(r, happening::gave_back, to_string((*what)->release()));
      case 1:
        (*what)->release_later();
        break;
      case 2:
        *what = acquisition(acquire_status::cancelled, {});
        break;
      default:
        what.reset();
    }
    write(r, happening::gave_back, "later");
  }

  struct forward {
    std::stop_source to;
    void operator()() noexcept { (void)to.request_stop(); }
  };

  event_loop& loop_;
  std::vector<taker> takers_;
  std::optional<std::stop_callback<forward>> end_;
  std::shared_ptr<std::atomic<bool>> waits_;  ///< the call of this turn has no reply yet
};

class loop_of_coroutines final : public crowd {
 public:
  explicit loop_of_coroutines(desk const& d) {
    for (int i = 0; i < d.o.threads; ++i)
      all_.push_back(std::make_unique<coroutine>(d, static_cast<std::uint32_t>(i), loop_));
    left_ = all_.size();
    for (auto& each : all_)
      loop_.post([this, &each] {
        each->work(stop_.get_token(), [this] {
          if (--left_ == 0) loop_.stop();
        });
      });
    thread_ = std::jthread([this] { loop_.run(); });
  }
  loop_of_coroutines(loop_of_coroutines const&) = delete;
  loop_of_coroutines& operator=(loop_of_coroutines const&) = delete;
  ~loop_of_coroutines() override { (void)stop_.request_stop(); }

 private:
  std::stop_source stop_;
  event_loop loop_;
  std::vector<std::unique_ptr<coroutine>> all_;
  std::size_t left_ = 0;  ///< for the loop's thread
  std::jthread thread_;
};

}  // namespace

std::unique_ptr<crowd> make_crowd(desk const& d) { return std::make_unique<loop_of_coroutines>(d); }

}  // namespace rowlock::torture
