// Many processes that read and write, or take units, under one name, as fast as they can. Not one of the
// tests: it runs as long as it is told to, and prints what it saw as JSON.
//
//   rowlock_permits_load URL SCENARIO [SECONDS [SCHEMA]]     (the tables are made; the name is the
//   scenario's)
//
// Scenarios:
//   faults: 5 that read and 5 that write, half of them killed, stopped and cut off (their server's sessions
//     are ended) at random
//   writers: 2 that write among 8 that read and never pause, 5 ms each
//   eight: 2 that want 8 of 10 units among 8 that want one
//   pair: one that writes and one that reads, neither of which pauses
//
// What is bounded in time means something only on a machine that has nothing else to do.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.hpp"
#include "backend/statement_book.hpp"

namespace {

using namespace std::chrono_literals;
using rowlock::boot_clock;
using clock = std::chrono::steady_clock;

constexpr int most = 10;
constexpr std::int64_t all_units = 2147483647;

/// One process, as it says itself: what it does stays here when it is killed.
struct seat {
  std::atomic<std::int64_t> units = 0;          ///< that it has; 0: outside
  std::atomic<std::int64_t> trusted_until = 0;  ///< at least, of those
  std::atomic<std::int64_t> waits_since = 0;    ///< 0: it does not wait
  std::atomic<long long> turns = 0;
};

struct shared_page {
  std::array<seat, most> seats;
  std::atomic<long long> overlaps = 0;         ///< somebody inside who must not be there
  std::atomic<long long> over_the_limit = 0;   ///< as the observer reads the table
  std::atomic<long long> looks = 0;            ///< of the observer
  std::atomic<long long> deadlocks = 0;        ///< shown to callers
  std::atomic<long long> errors = 0;           ///< shown to callers, where nothing was broken
  std::atomic<long long> cut_off = 0;          ///< sessions that were ended
  std::atomic<std::int64_t> longest_wait = 0;  ///< ns
};

struct plan {
  std::string name;
  std::string url;
  std::string schema;
  std::vector<std::int64_t> wants;  ///< of each process
  std::int64_t limit = all_units;
  bool faults = false;
  std::chrono::milliseconds ttl = 30s;
};

std::int64_t now_ns() { return boot_clock::now().time_since_epoch().count(); }

void raise_to(std::atomic<std::int64_t>& highest, std::int64_t n) {
  auto before = highest.load();
  while (before < n && !highest.compare_exchange_weak(before, n)) {
  }
}

/// Whether all who are inside, as far as they are trusted, fit together with this one.
void look_round(shared_page& page, plan const& p, int mine, rowlock::held_lock const& lock) {
  std::int64_t sum = 0;
  for (int i = 0; i < most; ++i) {
    auto const& s = page.seats[static_cast<std::size_t>(i)];
    auto const units = s.units.load();
    if (units > 0 && (i == mine || s.trusted_until.load() > now_ns())) sum += units;
  }
  if (sum > p.limit && lock.valid()) ++page.overlaps;
}

rowlock::acquisition ask(rowlock::lock_manager& m, plan const& p, std::int64_t units) {
  rowlock::mutex_options const o{.ttl = p.ttl, .retry = {.first = 5ms, .longest = 100ms}};
  if (p.limit != all_units) return m.make_semaphore(p.name, p.limit, o).try_acquire_for(60s, units);
  auto x = m.make_shared_mutex(p.name, o);
  return units == 1 ? x.try_acquire_shared_for(60s) : x.try_acquire_for(60s);
}

void take_turns(shared_page& page, plan const& p, int mine, clock::time_point end) {
  auto& s = page.seats[static_cast<std::size_t>(mine)];
  auto const units = p.wants[static_cast<std::size_t>(mine)];
  rowlock::manager_options o;
  o.schema = p.schema;
  rowlock::lock_manager manager(p.url, o);
  while (clock::now() < end) {
    try {
      s.waits_since = now_ns();
      auto lock = ask(manager, p, units);
      auto const waited = now_ns() - s.waits_since.exchange(0);
      if (!lock) continue;
      raise_to(page.longest_wait, waited);
      s.trusted_until = lock->trusted_until()->time_since_epoch().count();
      s.units = units;
      look_round(page, p, mine, *lock);
      std::this_thread::sleep_for(5ms);  // the section
      look_round(page, p, mine, *lock);
      s.units = 0;
      ++s.turns;
      (void)lock->release();
    } catch (rowlock::error const& e) {
      s.units = 0;
      if (e.reason() == rowlock::errc::conflict) ++page.deadlocks;
      if (!p.faults && ++page.errors <= 10) std::cerr << "error: " << e.what() << '\n';
    }
  }
}

/// Reads what the table says, again and again, on a session of its own.
void observe(shared_page& page, plan const& p, clock::time_point end) {
  auto const source = rowlock::source_from_url(p.url);
  auto const session = source.implementation()->connect(boot_clock::now() + 10s);
  auto const schema = p.schema.empty()
                          ? session->find_schema("rowlock_meta", false, boot_clock::now() + 10s).value_or("")
                          : p.schema;
  auto const& sql = source.implementation()->sql();
  rowlock::backend::statement_book const book(sql,
                                              rowlock::backend::table_names::of(sql, schema, "rowlock_"));
  while (clock::now() < end) {
    std::this_thread::sleep_for(3ms);  // how often it looks
    try {
      auto const rows = session
                            ->execute(book.at("permit_units"), std::vector<rowlock::backend::value>{p.name},
                                      boot_clock::now() + 10s)
                            .rows;
      std::int64_t sum = 0;
      for (auto const& columns : rows) sum += rowlock::backend::as_int(columns.at(2));
      ++page.looks;
      if (sum > p.limit) ++page.over_the_limit;
    } catch (rowlock::error const& e) {
      if (!e.retryable()) throw;
    }
  }
}

/// Ends all sessions of the server's that wait or work for us, but its own.
void cut_off(shared_page& page, plan const& p) try {
  auto const source = rowlock::source_from_url(p.url);
  auto const dialect = source.implementation()->sql().name;
  if (dialect == "sqlite") return;
  auto const session = source.implementation()->connect(boot_clock::now() + 10s);
  auto const run = [&](std::string const& sql) {
    return session->execute({"cut_off", sql}, {}, boot_clock::now() + 10s);
  };
  if (dialect == "postgresql") {
    page.cut_off += static_cast<long long>(
        run("SELECT pg_terminate_backend(pid)::int::bigint FROM pg_stat_activity WHERE pid <> "
            "pg_backend_pid() "
            "AND backend_type = 'client backend' AND datname = current_database() AND query LIKE '%_permit%' "
            "ORDER BY random() LIMIT 3")
            .rows.size());
    return;
  }
  for (auto const& row :
       run("SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id() "
           "ORDER BY rand() LIMIT 3")
           .rows) {
    session->script("KILL " + std::to_string(rowlock::backend::as_int(row.at(0))), boot_clock::now() + 10s);
    ++page.cut_off;
  }
} catch (rowlock::error const&) {
  return;  // it had ended by itself
}

template <class Work>
pid_t start(Work const& work) {
  auto const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid > 0) return pid;
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

/// The first half of the processes is killed, stopped and cut off at random; who was killed comes again.
class trouble {
 public:
  trouble(shared_page& page, plan const& p, std::vector<pid_t>& children, clock::time_point end)
      : page_(page), plan_(p), children_(children), end_(end) {}

  void make() {
    std::mt19937 random(1);
    while (clock::now() + 2s < end_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50 + random() % 300));  // between two faults
      auto const i = random() % (children_.size() / 2);
      switch (random() % 3) {
        case 0:
          kill(i);
          break;
        case 1:
          stop(i, std::chrono::milliseconds(random() % (2 * static_cast<unsigned>(plan_.ttl.count()))));
          break;
        default:
          children_pause_.emplace_back(start([&] { cut_off(page_, plan_); }));
          ::waitpid(children_pause_.back(), nullptr, 0);
      }
    }
  }
  long long killed() const { return killed_; }
  long long stopped() const { return stopped_; }

 private:
  void kill(std::size_t i) {
    ::kill(children_[i], SIGKILL);
    ::waitpid(children_[i], nullptr, 0);
    ++killed_;
    page_.seats[i].waits_since = 0;
    children_[i] = start([&] { take_turns(page_, plan_, static_cast<int>(i), end_); });
  }
  void stop(std::size_t i, std::chrono::milliseconds d) {
    ::kill(children_[i], SIGSTOP);
    ++stopped_;
    std::this_thread::sleep_for(d);  // the fault
    ::kill(children_[i], SIGCONT);
  }
  shared_page& page_;
  plan const& plan_;
  std::vector<pid_t>& children_;
  std::vector<pid_t> children_pause_;
  clock::time_point end_;
  long long killed_ = 0;
  long long stopped_ = 0;
};

/// The longest time without a turn of one kind: those that want as much.
class progress {
 public:
  progress(shared_page& page, plan const& p) : page_(page), plan_(p) {}
  void watch(std::stop_token const& stop) {
    auto const began = clock::now();
    std::map<std::int64_t, long long> turns;
    std::map<std::int64_t, clock::time_point> last;
    for (auto const units : plan_.wants) last[units] = began;
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(10ms);  // how often it looks
      std::map<std::int64_t, long long> now;
      for (std::size_t i = 0; i < plan_.wants.size(); ++i) now[plan_.wants[i]] += page_.seats[i].turns;
      for (auto const& [units, n] : now) {
        if (n != turns[units]) last[units] = clock::now();
        longest = std::max<std::chrono::nanoseconds>(longest, clock::now() - last[units]);
      }
      turns = std::move(now);
    }
  }
  std::chrono::nanoseconds longest{0};

 private:
  shared_page& page_;
  plan const& plan_;
};

plan plan_of(std::string const& scenario) {
  plan p;
  p.name = scenario;
  if (scenario == "faults") {
    p.wants = {1, all_units, 1, all_units, 1, all_units, 1, all_units, 1, all_units};
    p.faults = true;
    p.ttl = 1s;
  } else if (scenario == "writers") {
    p.wants = {all_units, all_units, 1, 1, 1, 1, 1, 1, 1, 1};
  } else if (scenario == "eight") {
    p.wants = {8, 8, 1, 1, 1, 1, 1, 1, 1, 1};
    p.limit = 10;
  } else if (scenario == "pair") {
    p.wants = {all_units, 1};
  }
  return p;
}

double ms(std::int64_t ns) { return static_cast<double>(ns / 1000) / 1000; }

}  // namespace

int main(int argc, char** argv) {
  auto p = plan_of(argc > 2 ? argv[2] : "");
  auto const seconds = argc > 3 ? std::atoi(argv[3]) : 60;
  if (argc > 5 || p.wants.empty() || seconds < 1) {
    std::cerr << "usage: rowlock_permits_load URL faults|writers|eight|pair [SECONDS [SCHEMA]]\n";
    return 64;
  }
  p.url = argv[1];
  p.schema = argc > 4 ? argv[4] : "";
  auto* memory =
      ::mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 70;
  auto& page = *new (memory) shared_page;
  int status = 0;
  auto const first = start([&] {  // in a process of its own: no connection is to be inherited
    rowlock::migrator_options o;
    o.schema = p.schema;
    rowlock::migrator(rowlock::source_from_url(p.url), o).up();
  });
  ::waitpid(first, &status, 0);
  if (status != 0) return 70;
  auto const end = clock::now() + std::chrono::seconds(seconds);
  std::vector<pid_t> children;
  for (int i = 0; i < static_cast<int>(p.wants.size()); ++i)
    children.push_back(start([&] { take_turns(page, p, i, end); }));
  auto const observer = start([&] { observe(page, p, end); });
  trouble faults(page, p, children, end);
  progress going(page, p);
  {
    std::jthread const watching([&](std::stop_token const& stop) { going.watch(stop); });
    if (p.faults) faults.make();
    std::this_thread::sleep_until(end);  // as long as it is to run
  }
  int failed = 0;
  children.push_back(observer);
  for (auto const child : children) {
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  std::map<std::int64_t, long long> turns;
  std::int64_t longest = page.longest_wait;
  for (std::size_t i = 0; i < p.wants.size(); ++i) turns[p.wants[i]] += page.seats[i].turns;
  bool const gone_on = going.longest < p.ttl + 5s;
  bool const good = failed == 0 && page.overlaps == 0 && page.over_the_limit == 0 && page.deadlocks == 0 &&
                    page.errors == 0 && page.looks > 0 && gone_on &&
                    std::all_of(turns.begin(), turns.end(), [](auto const& t) { return t.second > 0; });
  nlohmann::ordered_json const out{{"scenario", argv[2]},
                                   {"seconds", seconds},
                                   {"turns_of_those_who_want_least", turns.begin()->second},
                                   {"turns_of_those_who_want_most", turns.rbegin()->second},
                                   {"overlaps", page.overlaps.load()},
                                   {"looks", page.looks.load()},
                                   {"over_the_limit", page.over_the_limit.load()},
                                   {"deadlocks_to_callers", page.deadlocks.load()},
                                   {"errors_to_callers", page.errors.load()},
                                   {"killed", faults.killed()},
                                   {"stopped", faults.stopped()},
                                   {"sessions_cut_off", page.cut_off.load()},
                                   {"longest_wait_ms", ms(longest)},
                                   {"longest_without_a_turn_of_a_kind_ms", ms(going.longest.count())},
                                   {"processes_failed", failed},
                                   {"verdict", good ? "good" : "BAD"}};
  std::cout << out.dump() << '\n';
  return good ? 0 : 1;
}
