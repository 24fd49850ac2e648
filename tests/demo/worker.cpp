#include "demo/worker.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <optional>
#include <random>
#include <rowlock/error.hpp>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <thread>

#include "demo/counters.hpp"
#include "demo/redis.hpp"

namespace rowlock::demo {
namespace {

using namespace std::chrono_literals;

volatile sig_atomic_t ended = 0;

class worker {
 public:
  explicit worker(worker_options const& o)
      : options_(o), own_(connect(o.url)), random_(static_cast<unsigned>(o.number) + 1) {
    auto const name = fmt::format("demo:counter-{}", o.counter);
    if (o.how == mode::redis) {
      redis_.emplace(o.redis_socket, name, o.ttl);
    } else {
      manager_.emplace(o.url);
      mutex_.emplace(manager_->make_mutex(
          name, {.ttl = o.ttl, .retry = {.first = 2ms, .longest = 20ms}, .note = "demo"}));
    }
  }

  void round() {
    if (options_.how == mode::redis) {
      with_redis();
    } else {
      with_lease();
    }
    think(5ms, 15ms);  // does something else
  }

 private:
  void say(happening what, std::int64_t value = 0) {
    event const e{now(), options_.number, what, value};
    if (::write(STDOUT_FILENO, &e, sizeof e) != sizeof e) throw std::runtime_error("nobody listens");
  }

  /// What a real program computes between reading and writing.
  void think(std::chrono::microseconds least, std::chrono::microseconds most) {
    std::uniform_int_distribution<long> how_long(least.count(), most.count());
    std::this_thread::sleep_for(std::chrono::microseconds(how_long(random_)));
  }

  std::int64_t read_and_think() {
    auto const value = own_->read(options_.counter);
    say(happening::read, value);
    think(4ms, 12ms);
    return value;
  }

  void with_redis() {
    if (!redis_->try_take()) return;
    say(happening::granted);
    auto const value = read_and_think();
    own_->write(options_.counter, value + 1);
    say(happening::acknowledged, value + 1);
    say(happening::released);
    redis_->give_back();
  }

  acquisition take() {
    for (;;) try {
        return mutex_->try_acquire_for(500ms);
      } catch (error const& e) {
        // On a busy machine an answer may come later than such a short lease lasts.
        if (!e.retryable()) throw;
      }
  }

  void with_lease() {
    auto lock = take();
    if (!lock) return;
    say(happening::granted);
    auto const value = read_and_think();
    if (options_.how == mode::require) {
      write_guarded(*lock, value + 1);
    } else {
      own_->write(options_.counter, value + 1);
      say(happening::acknowledged, value + 1);
    }
    say(happening::released);
    (void)lock->release();
  }

  void write_guarded(held_lock const& lock, std::int64_t value) {
    for (;;) try {
        own_->begin();
        say(happening::begun);
        own_->view(*manager_).require(lock);
        say(happening::required);
        think(1ms, 2ms);
        own_->write(options_.counter, value);
        own_->commit();
        say(happening::acknowledged, value);
        return;
      } catch (error const& e) {
        own_->roll_back();
        if (e.reason() == errc::lock_lost) {
          say(happening::refused, value);
          return;
        }
        if (e.reason() == errc::in_doubt) {
          say(happening::in_doubt, value);
          return;
        }
        if (!e.retryable() && e.reason() != errc::transaction_ended) throw;
      }
  }

  worker_options options_;
  std::unique_ptr<counters> own_;
  std::mt19937 random_;
  std::optional<redis_lock> redis_;
  std::optional<lock_manager> manager_;
  std::optional<mutex> mutex_;
};

}  // namespace

void work(worker_options const& o) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  struct sigaction action {};
  action.sa_handler = [](int) { ended = 1; };
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
  worker w(o);
  while (ended == 0) w.round();
}

}  // namespace rowlock::demo
