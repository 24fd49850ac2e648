// Many processes that take and give back one lock as fast as they can; beside them reapers that think
// everything idle, one process after the other that dies with the lock in its hand, and an operator who
// deletes what has expired. Not one of the tests: it runs as long as it is told to, and prints what it saw as
// JSON.
//
//   rowlock_contention URL STRATEGY [SECONDS [PROCESSES [SCHEMA]]]     (the tables are made; the name is
//   "contended")
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <rowlock/reaper.hpp>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.hpp"

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

/// Where the tables are.
struct place {
  std::string url;
  std::string schema;

  rowlock::manager_options options(rowlock::strategy how) const {
    rowlock::manager_options o;
    o.schema = schema;
    o.strategy = how;
    return o;
  }
};

/// Shared by all processes. `plain` is what the lock is to protect: read, and written a little later, by
/// whoever has it.
struct shared_page {
  volatile long long plain = 0;
  std::atomic<int> inside = 0;
  std::atomic<long long> acquisitions = 0;
  std::atomic<long long> overlaps = 0;       ///< two inside at once
  std::atomic<long long> token_falls = 0;    ///< a token that is not above the one before
  std::atomic<long long> deadlocks = 0;      ///< tried again by the library
  std::atomic<long long> other_trouble = 0;  ///< told by the event hook, ridden out by the library
  std::atomic<long long> errors = 0;         ///< shown to callers
  std::atomic<long long> lost = 0;           ///< release() said so
  std::atomic<long long> reaped = 0;
  std::atomic<long long> died_with_it = 0;
  std::atomic<long long> last_token = 0;
  std::atomic<long long> slowest_us = 0;
};

void watch(shared_page& page, rowlock::event const& e) {
  if (e.kind != rowlock::event_kind::error) return;
  bool const deadlock =
      e.message.find("deadlock") != e.message.npos || e.message.find("Deadlock") != e.message.npos;
  ++(deadlock ? page.deadlocks : page.other_trouble);
  if (!deadlock && page.other_trouble <= 5) std::cerr << "trouble: " << e.message << '\n';
}

void compete(shared_page& page, place const& at, rowlock::strategy how, clock::time_point end) {
  auto o = at.options(how);
  o.on_event = [&page](rowlock::event const& e) { watch(page, e); };
  rowlock::lock_manager manager(at.url, o);
  auto mutex = manager.make_mutex("contended",
                                  {.ttl = 20s, .retry = {.first = 1ms, .longest = 50ms}, .fencing = true});
  do {
    auto const start = clock::now();
    try {
      auto lock = mutex.try_acquire_for(30s);
      if (!lock) continue;
      auto const took = std::chrono::duration_cast<std::chrono::microseconds>(clock::now() - start).count();
      auto slowest = page.slowest_us.load();
      while (slowest < took && !page.slowest_us.compare_exchange_weak(slowest, took)) {
      }
      if (page.inside.exchange(1) != 0) ++page.overlaps;
      auto const before = page.plain;
      if (lock->token().value <= page.last_token.exchange(lock->token().value)) ++page.token_falls;
      for (int i = 0; i < 500; ++i)
        page.inside.fetch_add(0);  // long enough for another to come in, if it can
      page.plain = before + 1;
      page.inside = 0;
      ++page.acquisitions;
      if (lock->release() == rowlock::release_result::already_lost) ++page.lost;
    } catch (std::exception const& e) {
      if (++page.errors <= 10) std::cerr << "error: " << e.what() << '\n';
    }
  } while (clock::now() < end);
}

void reap(shared_page& page, place const& at, clock::time_point end) {
  while (clock::now() < end) {
    try {
      auto const done =
          rowlock::reaper(rowlock::source_from_url(at.url), {.schema = at.schema, .idle = 0ms, .wait = 1s})
              .run();
      page.reaped += done.deleted.all();
    } catch (std::exception const& e) {
      if (++page.errors <= 10) std::cerr << "reaper: " << e.what() << '\n';
    }
    std::this_thread::sleep_for(20ms);  // how much of it there is to be
  }
}

/// As somebody would who looks after tables: plain SQL, no rowlock.
void operate(shared_page& page, place const& at, clock::time_point end) {
  using namespace rowlock;
  auto const source = source_from_url(at.url);
  auto const dialect = source.implementation()->sql().name;
  auto const* now = dialect == "sqlite"  ? "cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
                    : dialect == "mysql" ? "utc_timestamp(6)"
                                         : "clock_timestamp()";
  auto const clean_up =
      backend::table_names::of(source.implementation()->sql(), at.schema, "rowlock_")
          .render(std::string("DELETE FROM rowlock_locks WHERE term IS NOT NULL AND expires_at < ") + now);
  while (clock::now() < end) {
    try {
      auto const session = source.implementation()->connect(boot_clock::now() + 10s);
      for (int i = 0; i < 10 && clock::now() < end; ++i) {
        try {
          session->script(clean_up, boot_clock::now() + 10s);
        } catch (error const& e) {
          if (!e.retryable()) throw;  // a deadlock, or waited for too long: theirs to try again
        }
        std::this_thread::sleep_for(50ms);  // how much of it there is to be
      }
    } catch (std::exception const& e) {
      if (++page.errors <= 10) std::cerr << "operator: " << e.what() << '\n';
    }
  }
}

template <class Work>
void start(std::vector<pid_t>& children, Work const& work) {
  auto const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid > 0) return children.push_back(pid);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    work();
  } catch (std::exception const& e) {
    std::cerr << "a process ended: " << e.what() << '\n';
    status = 1;
  }
  std::cerr.flush();
  ::_exit(status);
}

/// Each child takes the lock for a short term and dies with it.
void die_again_and_again(shared_page& page, place const& at, rowlock::strategy how, clock::time_point end) {
  while (clock::now() + 2s < end) {
    std::vector<pid_t> child;
    start(child, [&] {
      rowlock::lock_manager manager(at.url, at.options(how));
      auto mutex = manager.make_mutex("contended", {.ttl = 300ms, .retry = {.first = 1ms, .longest = 5ms}});
      auto const lock = mutex.try_acquire_for(2s);
      if (lock) ++page.died_with_it;
      ::kill(::getpid(), SIGKILL);
    });
    ::waitpid(child[0], nullptr, 0);
    std::this_thread::sleep_for(200ms);  // others have it in between
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 6) {
    std::cerr << "usage: rowlock_contention URL STRATEGY [SECONDS [PROCESSES [SCHEMA]]]\n";
    return 64;
  }
  place const at{argv[1], argc > 5 ? argv[5] : ""};
  auto const how = rowlock::strategy_from_string(argv[2]);
  auto const seconds = argc > 3 ? std::atoi(argv[3]) : 60;
  auto const processes = argc > 4 ? std::atoi(argv[4]) : 16;
  if (!how || seconds < 1 || processes < 1) {
    std::cerr << "no such strategy, or numbers that are none\n";
    return 64;
  }
  auto* memory =
      ::mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 70;
  auto& page = *new (memory) shared_page;
  {
    std::vector<pid_t> first;  // in a process of its own: no connection is to be inherited
    start(first, [&] {
      rowlock::migrator_options o;
      o.schema = at.schema;
      rowlock::migrator(rowlock::source_from_url(at.url), o).up();
    });
    int status = 0;
    ::waitpid(first[0], &status, 0);
    if (status != 0) return 70;
  }
  auto const end = clock::now() + std::chrono::seconds(seconds);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) start(children, [&] { compete(page, at, *how, end); });
  for (int i = 0; i < 4; ++i) start(children, [&] { reap(page, at, end); });
  start(children, [&] { operate(page, at, end); });
  start(children, [&] { die_again_and_again(page, at, *how, end); });
  int failed = 0;
  for (auto const child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  bool const good = failed == 0 && page.overlaps == 0 && page.errors == 0 && page.token_falls == 0 &&
                    page.plain == page.acquisitions.load() && page.acquisitions > 0;
  nlohmann::ordered_json const out{{"strategy", argv[2]},
                                   {"seconds", seconds},
                                   {"processes", processes},
                                   {"acquisitions", page.acquisitions.load()},
                                   {"plain_counter", static_cast<long long>(page.plain)},
                                   {"overlaps", page.overlaps.load()},
                                   {"token_falls", page.token_falls.load()},
                                   {"deadlocks_retried", page.deadlocks.load()},
                                   {"other_trouble_ridden_out", page.other_trouble.load()},
                                   {"errors_to_callers", page.errors.load()},
                                   {"lost", page.lost.load()},
                                   {"rows_reaped", page.reaped.load()},
                                   {"died_with_it", page.died_with_it.load()},
                                   {"processes_failed", failed},
                                   {"slowest_take_ms", static_cast<double>(page.slowest_us) / 1000},
                                   {"verdict", good ? "good" : "BAD"}};
  std::cout << out.dump() << '\n';
  return good ? 0 : 1;
}
