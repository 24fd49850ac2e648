// An event loop of one thread, whose coroutines all want one mutex; and how late a heartbeat of that loop
// comes, beside the same loop without locks.
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <exception>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>

#include "children.hpp"
#include "event_loop/event_loop.hpp"
#include "measure.hpp"
#include "systems/databases.hpp"

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;
using tool::detached_task;
using tool::event_loop;
using clock = event_loop::clock;

constexpr auto beat = 1ms;

/// How late the beats came.
struct beats {
  histogram late;
  std::uint64_t latest = 0;  ///< nanoseconds
};
struct loop_seen {
  beats without_locks;
  beats with_locks;
  std::uint64_t sections = 0;
  double seconds = 0;
};

/// One phase of the loop, which ends by itself. For the loop's thread, unless said otherwise.
class phase {
 public:
  phase(crew_plan const& plan, beats& to, loop_seen& all) : plan_(plan), beats_(to), seen_(all) {}

  /// One coroutine passes sections, one after the other, without a lock.
  void run_without_locks() {
    begin_to_count();
    passes();
    run();
  }
  void run_with_locks(lock_manager& manager) {
    auto m = manager.make_mutex(plan_.name);
    auto const where = loop_.executor();
    for (int i = 0; i < plan_.threads; ++i) loop_.post([this, &m, &where] { works(m, where); });
    left_ = plan_.threads;
    run();
    seen_.sections = sections_;
    seen_.seconds = std::chrono::duration<double>(ended_ - began_).count();
    if (!trouble_.empty()) throw peer_error(trouble_);
  }

 private:
  void run() {
    std::jthread const thread([this] {
      ::pthread_setname_np(::pthread_self(), "loop");
      loop_.run();
    });
  }

  detached_task passes() {
    left_ = 1;
    while (!ends()) co_await loop_.pause(plan_.section);
    leave();
  }

  detached_task works(mutex& m, executor const& where) {
    try {
      for (bool first = true; !ends(); first = false) {
        auto got = co_await m.async_acquire(where);
        auto& lock = got.value();
        if (++inside_ != 1) throw peer_error("TWO HAD THE LOCK AT ONCE");
        // Counted once each has had it.
        if (first && ++have_had_it_ == plan_.threads) begin_to_count();
        co_await loop_.pause(plan_.section);
        --inside_;
        if (counts_ && !ends()) ++sections_;
        auto const result = co_await lock.async_release(where);
        if (result != release_result::released && result != release_result::handed_over)
          throw peer_error(fmt::format("async_release() said {}", to_string(result)));
      }
    } catch (std::exception const& e) {
      trouble_ = e.what();
      began_ = {};
      counts_ = true;  // it ends
    }
    leave();
  }

  detached_task beats_in_time() {
    for (auto due = began_ + beat; !ends(); due += beat) {
      co_await loop_.pause(due - clock::now());
      auto const late = static_cast<std::uint64_t>(
          std::max<std::int64_t>(0, std::chrono::nanoseconds(clock::now() - due).count()));
      beats_.late.add(late);
      beats_.latest = std::max(beats_.latest, late);
    }
  }

  void begin_to_count() {
    counts_ = true;
    began_ = clock::now();
    beats_in_time();
  }
  bool ends() {
    if (counts_ && clock::now() < began_ + plan_.lasts) return false;
    if (counts_ && ended_ == clock::time_point()) ended_ = clock::now();
    return counts_;
  }
  void leave() {
    if (--left_ == 0) loop_.stop();
  }

  crew_plan const& plan_;
  beats& beats_;
  loop_seen& seen_;
  event_loop loop_;
  bool counts_ = false;
  clock::time_point began_;
  clock::time_point ended_;
  int left_ = 0;
  int inside_ = 0;
  int have_had_it_ = 0;
  std::uint64_t sections_ = 0;
  std::string trouble_;
};

}  // namespace

measurement measure_loop(system_entry const& system, std::string const& address, crew_plan const& plan) {
  shared_memory<loop_seen> result(1);
  auto const timeout = 4 * plan.lasts + 30s;
  in_a_child(std::chrono::duration_cast<std::chrono::milliseconds>(timeout), [&] {
    lock_manager manager(database_of(system.place).source(address));
    manager.connect();
    phase(plan, result[0].without_locks, result[0]).run_without_locks();
    phase(plan, result[0].with_locks, result[0]).run_with_locks(manager);
  });
  auto const& r = result[0];
  if (r.sections == 0) throw peer_error("not one section came to its end");
  auto const stall = [&](auto const& of) { return (of(r.with_locks) - of(r.without_locks)) / 1e6; };
  auto const almost_all = [](beats const& b) { return b.late.nanoseconds(0.999); };
  auto const latest = [](beats const& b) { return static_cast<double>(b.latest); };
  measurement m;
  m.values["per_second"] = static_cast<double>(r.sections) / r.seconds;
  m.values["stall_p999_ms"] = stall(almost_all);
  m.values["stall_max_ms"] = stall(latest);
  m.values["late_p999_ms"] = almost_all(r.with_locks) / 1e6;
  m.values["late_max_ms"] = latest(r.with_locks) / 1e6;
  return m;
}

}  // namespace rowlock::bench
