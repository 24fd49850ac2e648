// Candidates in processes of their own, and a leader that is killed, or resigns, again and again. Prints as
// JSON how long nobody led each time, and whether two ever led at once. Not one of the tests: it runs as long
// as it is told to.
//
//   rowlock_elections URL kill|resign [ROUNDS [CANDIDATES [TTL_MS [ALLOWED_MS [SCHEMA]]]]]     (the tables
//   are made)
//
// Good is: no leader began before the trust of the one before had ended, or its work; tokens rose; and after
// a kill nobody had to wait for longer than the ttl and ALLOWED_MS (1000), after a resignation not for longer
// than ALLOWED_MS (50) at the median.
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
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using rowlock::boot_clock;

boot_clock::rep now() { return boot_clock::now().time_since_epoch().count(); }

struct settings {
  std::string url;
  bool kills = true;
  int rounds = 100;
  int candidates = 10;
  std::chrono::milliseconds ttl{2000};
  std::chrono::milliseconds allowed{1000};
  std::string schema;
};

/// One term, as its leader writes it down. Times in nanoseconds of the boot-time clock, which all processes
/// share; 0: not yet.
struct term {
  std::atomic<pid_t> pid = 0;
  std::atomic<boot_clock::rep> until = 0;  ///< trust, so far
  std::atomic<boot_clock::rep> told = 0;   ///< it has resigned
  std::atomic<boot_clock::rep> ended = 0;  ///< the work has returned
  std::atomic<long long> token = 0;
  std::atomic<boot_clock::rep> began = 0;  ///< written last
};

/// Shared by all processes.
struct shared_page {
  std::atomic<int> terms = 0;
  std::atomic<int> to_resign = -1;  ///< the term of this number
  std::atomic<bool> over = false;
  std::atomic<int> errors = 0;
  std::array<term, 10'000> all;
};

void lead(shared_page& page, rowlock::leadership& l, std::stop_token const& stop) {
  auto const number = page.terms++;
  auto& t = page.all.at(static_cast<std::size_t>(number));
  t.pid = ::getpid();
  t.token = l.token().value;
  t.until = l.trusted_until().time_since_epoch().count();
  t.began = now();
  while (!stop.stop_requested()) {
    t.until = l.trusted_until().time_since_epoch().count();
    if (page.to_resign == number) {
      t.told = now();
      l.resign();
    } else {
      std::this_thread::sleep_for(1ms);  // how often it looks
    }
  }
  t.ended = now();
}

void be_candidate(shared_page& page, settings const& s) {
  rowlock::manager_options o;
  o.schema = s.schema;
  rowlock::lock_manager manager(s.url, o);
  rowlock::election e(manager, "elected", {.ttl = s.ttl, .value = std::to_string(::getpid())});
  std::stop_source stop;
  std::jthread const ends([&](std::stop_token done) {
    while (!page.over && !done.stop_requested()) std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  e.run([&](rowlock::leadership& l, std::stop_token told) { lead(page, l, told); }, stop.get_token());
}

template <class Work>
pid_t start(shared_page& page, Work const& work) {
  auto const pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int status = 0;
  try {
    work();
  } catch (std::exception const& e) {
    std::cerr << "a process ended: " << e.what() << '\n';
    ++page.errors;
    status = 1;
  }
  std::cerr.flush();
  ::_exit(status);
}

/// Waits until the term of this number has begun. @return false if it does not within a minute
bool begins(shared_page& page, int number) {
  auto const& t = page.all.at(static_cast<std::size_t>(number));
  auto const give_up = boot_clock::now() + 60s;
  while (t.began == 0) {
    if (boot_clock::now() > give_up) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// @return how long nobody led each time, in milliseconds
std::vector<double> go(shared_page& page, settings const& s, std::vector<pid_t>& children) {
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<long> anywhen(0, s.ttl.count() / 2);
  std::vector<double> gaps;
  for (int round = 0; round < s.rounds; ++round) {
    int const number = page.terms - 1;
    auto& t = page.all.at(static_cast<std::size_t>(std::max(number, 0)));
    if (number < 0 || !begins(page, number)) throw std::runtime_error("nobody leads");
    std::this_thread::sleep_for(s.kills ? std::chrono::milliseconds(anywhen(random)) : 150ms);
    if (s.kills) {
      auto const at = now();
      ::kill(t.pid, SIGKILL);
      ::waitpid(t.pid, nullptr, 0);
      std::replace(children.begin(), children.end(), t.pid.load(),
                   start(page, [&] { be_candidate(page, s); }));
      t.told = at;
    } else {
      page.to_resign = number;
    }
    if (!begins(page, number + 1)) throw std::runtime_error("nobody leads any more");
    auto const gap = page.all.at(static_cast<std::size_t>(number) + 1).began - t.told;
    gaps.push_back(static_cast<double>(gap) / 1e6);
  }
  return gaps;
}

struct seen {
  int overlaps = 0, token_falls = 0;
};

seen judge(shared_page const& page) {
  seen s;
  boot_clock::rep ends = 0;
  long long token = 0;
  for (int i = 0; i < page.terms; ++i) {
    auto const& t = page.all.at(static_cast<std::size_t>(i));
    s.overlaps += t.began < ends;
    s.token_falls += t.token <= token;
    ends = std::max(ends, t.ended == 0 ? t.until.load() : std::min(t.ended.load(), t.until.load()));
    token = t.token;
  }
  return s;
}

nlohmann::ordered_json spread(std::vector<double> gaps) {
  std::sort(gaps.begin(), gaps.end());
  return {{"shortest", gaps.front()},
          {"median", gaps[gaps.size() / 2]},
          {"p95", gaps[gaps.size() * 95 / 100]},
          {"longest", gaps.back()}};
}

int failed_of(std::vector<pid_t> const& children) {
  int failed = 0;
  for (auto const child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  return failed;
}

int run(shared_page& page, settings const& s) {
  auto const first = start(page, [&] {  // in a process of its own: no connection is to be inherited
    rowlock::migrator_options o;
    o.schema = s.schema;
    rowlock::migrator(rowlock::source_from_url(s.url), o).up();
  });
  if (failed_of({first}) != 0) return 70;
  std::vector<pid_t> children;
  for (int i = 0; i < s.candidates; ++i) children.push_back(start(page, [&] { be_candidate(page, s); }));
  std::string trouble;
  std::vector<double> gaps{0};
  try {
    if (begins(page, 0)) gaps = go(page, s, children);
  } catch (std::exception const& e) {
    trouble = e.what();
  }
  page.over = true;
  auto const failed = failed_of(children);
  auto const what = judge(page);
  auto const figures = spread(gaps);
  double const allowed = static_cast<double>((s.kills ? s.ttl + s.allowed : s.allowed).count());
  bool const quick = figures[s.kills ? "longest" : "median"] <= allowed;
  bool const good = quick && trouble.empty() && failed == 0 && page.errors == 0 && what.overlaps == 0 &&
                    what.token_falls == 0 && static_cast<int>(gaps.size()) == s.rounds;
  nlohmann::ordered_json const out{{"leader", s.kills ? "killed" : "resigned"},
                                   {"rounds", gaps.size()},
                                   {"candidates", s.candidates},
                                   {"ttl_ms", s.ttl.count()},
                                   {"terms", page.terms.load()},
                                   {"two_at_once", what.overlaps},
                                   {"token_falls", what.token_falls},
                                   {"nobody_led_ms", figures},
                                   {"allowed_ms", allowed},
                                   {"processes_failed", failed},
                                   {"trouble", trouble},
                                   {"verdict", good ? "good" : "BAD"}};
  std::cout << out.dump() << '\n';
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const how = argc > 2 ? argv[2] : "";
  if (argc < 3 || argc > 8 || (how != "kill" && how != "resign")) {
    std::cerr
        << "usage: rowlock_elections URL kill|resign [ROUNDS [CANDIDATES [TTL_MS [ALLOWED_MS [SCHEMA]]]]]\n";
    return 64;
  }
  settings s;
  s.url = argv[1];
  s.kills = how == "kill";
  if (argc > 3) s.rounds = std::clamp(std::atoi(argv[3]), 1, 5000);
  if (argc > 4) s.candidates = std::max(2, std::atoi(argv[4]));
  if (argc > 5) s.ttl = std::chrono::milliseconds(std::atoi(argv[5]));
  s.allowed = std::chrono::milliseconds(argc > 6 ? std::atoi(argv[6]) : s.kills ? 1000 : 50);
  if (argc > 7) s.schema = argv[7];
  auto* memory =
      ::mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 70;
  return run(*new (memory) shared_page, s);
}
