// main() of every test program: lists cases by their full names, runs those that match a filter, several at a
// time if told so, prints a line for each, and calls a run without cases, or a case without assertions, a
// failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <new>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// An exception's text is counted by libstdc++ itself, which ThreadSanitizer does not see into: whoever drops
// the last copy of an error that another thread has read looks like a race.
extern "C" char const* __tsan_default_suppressions();
extern "C" char const* __tsan_default_suppressions() { return "race:std::runtime_error::~runtime_error\n"; }

namespace {

constexpr unsigned longest_case = 900;  // seconds; a test that hangs must not hang the run

constexpr int hung_status = 124;
constexpr std::size_t most_jobs = 99;
constexpr auto no_case = static_cast<std::size_t>(-1);

std::string suite;  // "contract" in rowlock_contract_tests
bool until_first_failure = false;
std::string results_path;  // of --results; empty if there is none
/// A case as doctest knows it, and as people do: "suite/name", and the back end if it stands in a TEST_SUITE
/// of that name and does not name it itself.
struct test_case {
  std::string name;
  std::string full_name;
  unsigned number;  ///< doctest's, from 1, in the order of all_cases
  bool alone;       ///< can't stand neighbours: TEST_CASE("name" * doctest::description("alone"))
};

/// What this process and its workers share.
struct shared_state {
  std::atomic<int> passed{0};
  std::atomic<int> failed{0};
  std::atomic<std::size_t> next{0};  ///< the first case that no worker has taken
  struct worker {
    std::atomic<bool> busy{false};
    std::atomic<std::size_t> index{no_case};  ///< of the case that it runs if it is busy, or ran last
  };
  std::array<worker, most_jobs> workers;
};

std::vector<test_case> all_cases;
shared_state* shared = nullptr;
shared_state::worker* self = nullptr;  // if this process is a worker
std::ostringstream case_output;        // of a worker: a case's lines go out in one piece
int output_lock = -1;
char running[512] = "";

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    auto const n = ::write(fd, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

/// The file lock of a process ends with it, so one that dies here holds up nobody.
void print(std::string const& text) {
  if (output_lock >= 0) (void)!::lockf(output_lock, F_LOCK, 0);
  write_all(STDOUT_FILENO, text);
  if (output_lock >= 0) (void)!::lockf(output_lock, F_ULOCK, 0);
}

/// Counts a case, and writes it down where tools/test looks.
void count(bool good, std::string const& name) {
  ++(good ? shared->passed : shared->failed);
  if (results_path.empty()) return;
  int const fd = ::open(results_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  write_all(fd, fmt::format("{} {}\n", good ? "ok" : "FAILED", name));
  ::close(fd);
}

std::string full_name(doctest::TestCaseData const& test) {
  std::string const name = test.m_name;
  std::string const group = test.m_test_suite;
  bool const said = group.empty() || name.find(group) != name.npos;
  return fmt::format("{}/{}{}", suite, name, said ? "" : " <" + group + ">");
}

void end_hung_case(int) {
  if (self != nullptr) {
    // Whoever started this worker says the rest.
    write_all(STDOUT_FILENO, case_output.view());
    ::_exit(hung_status);
  }
  write_all(STDERR_FILENO, "FAILED  ");
  write_all(STDERR_FILENO, running);
  write_all(STDERR_FILENO, ": has not ended within its time\n");
  ::_exit(1);
}

/// doctest's own report of what failed, and besides it a line per case.
class line_reporter : public doctest::ConsoleReporter {
 public:
  explicit line_reporter(doctest::ContextOptions const& options) : ConsoleReporter(options) {}

  void report_query(doctest::QueryData const& query) override {
    for (unsigned i = 0; i < query.num_data; ++i) {
      auto const& test = *query.data[i];
      bool const alone = test.m_description != nullptr && std::strcmp(test.m_description, "alone") == 0;
      all_cases.push_back({test.m_name, full_name(test), i + 1, alone});
    }
  }

  void test_run_start() override {}

  /// MESSAGE() of a test that passes is a measurement or the like: one line of it.
  void log_message(doctest::MessageData const& message) override {
    if (message.m_severity != doctest::assertType::is_warn) {
      ConsoleReporter::log_message(message);
      return;
    }
    std::lock_guard const lock{mutex};
    std::string const text = message.m_string.c_str();
    s << "        note: " << text.substr(0, std::min<std::size_t>(text.find('\n'), 100)) << '\n'
      << std::flush;
  }

  void test_case_start(doctest::TestCaseData const& test) override {
    ConsoleReporter::test_case_start(test);
    name_ = full_name(test);
    running[name_.copy(running, sizeof running - 1)] = '\0';
    ::alarm(longest_case);
  }

  void test_case_end(doctest::CurrentTestCaseStats const& result) override {
    ::alarm(0);
    ConsoleReporter::test_case_end(result);
    bool const empty = result.numAssertsCurrentTest == 0;
    bool const good = result.testCaseSuccess && result.failure_flags == 0 && !empty;
    char const* word = good ? "ok" : "FAILED";
    s << fmt::format("{:<7} {} ({:.2f} s){}\n", word, name_, result.seconds,
                     empty ? ": it asserts nothing" : "")
      << std::flush;
    count(good, name_);
    if (self == nullptr) return;
    print(case_output.str());
    case_output.str("");
    // Not before all is said: until then it is for the parent to report.
    self->busy = false;
  }

  void test_run_end(doctest::TestRunStats const&) override {}

 private:
  std::string name_;
};

DOCTEST_REGISTER_REPORTER("line", 0, line_reporter);

/// Whether `text` has a part that `pattern` describes: * for anything, ? for one character, case is ignored.
bool contains(std::string const& text, std::string const& pattern) {
  return doctest::wildcmp(text.c_str(), ("*" + pattern + "*").c_str(), false) != 0;
}

void load_cases() {
  char const* const arguments[] = {"", "--list-test-cases", "--no-skip", "--order-by=file",
                                   "--reporters=line"};
  doctest::Context context{5, arguments};
  context.run();
}

std::vector<test_case> matching(std::string const& filter, std::vector<std::string> const& without) {
  std::vector<test_case> chosen;
  for (auto const& test : all_cases) {
    if (std::ranges::any_of(without, [&](auto const& part) { return contains(test.full_name, part); }))
      continue;
    if (test.full_name == filter) return {test};
    if (contains(test.full_name, filter)) chosen.push_back(test);
  }
  return chosen;
}

int run_case(test_case const& test) {
  doctest::Context context;
  context.setOption("no-skip", true);  // a skipped test would be one that nobody misses
  context.setOption("order-by", "file");
  context.addFilter("reporters", "line");
  context.setOption("first", static_cast<int>(test.number));
  context.setOption("last", static_cast<int>(test.number));
  if (self != nullptr) context.setCout(&case_output);
  return context.run();
}

/// How many threads of the whole machine run, or wait for a processor, just now.
long runnable() {
  std::ifstream loads("/proc/loadavg");
  std::string average;
  long now = 0;
  loads >> average >> average >> average >> now;
  return now;
}

/// Most cases wait, some calculate: another one begins while the processors keep up, so that none of them
/// meets a moment in which nobody gets one. Where others keep the machine busy, it begins after a while.
void wait_for_a_processor() {
  using namespace std::chrono_literals;
  long const enough = 3 * ::sysconf(_SC_NPROCESSORS_ONLN);
  for (int tries = 0; tries < 40 && runnable() > enough; ++tries) std::this_thread::sleep_for(50ms);
}

/// The life of a worker: the next case that nobody has taken, until there is none.
int run_worker(std::vector<test_case> const& cases) {
  int status = 0;
  wait_for_a_processor();
  for (auto next = shared->next++; next < cases.size(); next = shared->next++) {
    self->index = next;
    self->busy = true;
    status |= run_case(cases[next]);
    if (until_first_failure && status != 0) shared->next = cases.size();
    wait_for_a_processor();
  }
  return status;
}

pid_t start_worker(std::vector<test_case> const& cases, shared_state::worker& worker) {
  pid_t const parent = ::getpid();
  pid_t const pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  self = &worker;
  std::exit(run_worker(cases));
}

/// What has become of a worker that did not come to the end of a case.
std::string cause_of_death(int status) {
  if (WIFSIGNALED(status)) return fmt::format("its process died of signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == hung_status) return "has not ended within its time";
  return fmt::format("its process ended with status {}", WEXITSTATUS(status));
}

/// Runs them in up to `jobs` processes, forked while this one has a single thread. @return whether all ended
/// well
bool run_in_workers(std::vector<test_case> const& cases, std::size_t jobs) {
  bool good = true;
  shared->next = 0;
  std::array<pid_t, most_jobs> pids{};
  std::size_t living = 0;
  auto start = [&](std::size_t slot) {
    shared->workers[slot].busy = false;
    shared->workers[slot].index = no_case;
    pids[slot] = start_worker(cases, shared->workers[slot]);
    if (pids[slot] > 0) {
      ++living;
    } else {
      good = false;
    }
  };
  for (std::size_t slot = 0; slot < std::min(jobs, cases.size()); ++slot) start(slot);
  while (living > 0) {
    int status = 0;
    pid_t const ended = ::wait(&status);
    auto const found = std::ranges::find(pids, ended);
    if (found == pids.end()) continue;
    --living;
    *found = 0;
    if (status != 0) good = false;
    auto const slot = static_cast<std::size_t>(found - pids.begin());
    auto const& worker = shared->workers[slot];
    bool const died = WIFSIGNALED(status) || worker.busy;
    if (worker.busy) {
      auto const& name = cases[worker.index].full_name;
      count(false, name);
      print(fmt::format("FAILED  {}: {}\n", name, cause_of_death(status)));
      if (until_first_failure) shared->next = cases.size();
    }
    // One that died before its first case would be followed by others for ever.
    if (died && worker.index != no_case && shared->next < cases.size()) start(slot);
  }
  return good;
}

int run(std::vector<test_case> const& cases, std::size_t jobs) {
  bool good = true;
  if (jobs == 1) {
    for (auto const& test : cases) {
      good = run_case(test) == 0 && good;
      if (until_first_failure && !good) break;
    }
  } else {
    output_lock = ::memfd_create("output", MFD_CLOEXEC);
    std::vector<test_case> together;
    std::vector<test_case> alone;
    for (auto const& test : cases) (test.alone ? alone : together).push_back(test);
    good = run_in_workers(together, jobs);
    if (good || !until_first_failure) good = run_in_workers(alone, 1) && good;
  }
  int const passed = shared->passed;
  int const failed = shared->failed;
  print(fmt::format("{} passed, {} failed\n", passed, failed));
  if (passed + failed == 0) std::cerr << "no test was run\n";
  return good && failed == 0 && passed > 0 ? 0 : 1;
}

int usage() {
  std::cerr
      << "usage: rowlock_" << suite
      << "_tests [--list] [--jobs N] [--fail-fast] [--results FILE] [--without PART]... [FILTER]\n"
      << "  FILTER    part of a full name as --list prints it; * and ? are wildcards\n"
      << "  --jobs    how many run at a time, each in a process of its own; 1, the default: in this one\n"
      << "  --fail-fast no further case begins when one has failed\n"
      << "  --results a line for each is added to this file\n"
      << "  --without leave out those that have this in their full name\n"
      << "Exit status: 0 all passed, 1 some failed, 3 no test matches, 64 usage\n";
  return 64;
}

}  // namespace

int main(int argc, char** argv) {
  std::string program = argv[0];
  program = program.substr(program.rfind('/') + 1);
  std::string const before = "rowlock_";
  std::string const after = "_tests";
  suite = program.size() > before.size() + after.size()
              ? program.substr(before.size(), program.size() - before.size() - after.size())
              : program;
  bool list = false;
  std::size_t jobs = 1;
  std::vector<std::string> without;
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    if (argument == "--list") {
      list = true;
    } else if (argument == "--fail-fast") {
      until_first_failure = true;
    } else if (argument == "--results" && i + 1 < argc) {
      results_path = argv[++i];
    } else if (argument == "--without" && i + 1 < argc) {
      without.emplace_back(argv[++i]);
    } else if (argument == "--jobs" && i + 1 < argc) {
      std::string_view const number = argv[++i];
      auto const end = number.data() + number.size();
      if (std::from_chars(number.data(), end, jobs).ptr != end || jobs < 1 || jobs > most_jobs)
        return usage();
    } else if (argument.starts_with("--") || !filter.empty()) {
      return usage();
    } else {
      filter = argument;
    }
  }
  load_cases();
  std::set<std::string> distinct;
  for (auto const& test : all_cases) {
    if (!distinct.insert(test.name).second) {
      std::cerr << program << ": two tests have the name '" << test.name << "'\n";
      return 1;
    }
  }
  auto const cases = matching(filter, without);
  if (cases.empty()) {
    std::cerr << program << ": no test matches '" << filter << "'\n";
    return 3;
  }
  if (list) {
    for (auto const& test : cases) std::cout << test.full_name << '\n';
    return 0;
  }
  // Nothing that whoever started us ignores or blocks may decide a test: what it starts inherits it (nohup, a
  // CI runner).
  for (int const number : {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGPIPE, SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU})
    ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGALRM, end_hung_case);
  void* const memory =
      ::mmap(nullptr, sizeof(shared_state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    std::cerr << program << ": no memory\n";
    return 1;
  }
  shared = new (memory) shared_state;
  return run(cases, jobs);
}
