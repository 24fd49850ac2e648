// main() of every test program: lists cases by their full names, runs those that match a filter, prints a
// line for each, and calls a run without cases, or a case without assertions, a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr unsigned longest_case = 240;  // seconds; a test that hangs must not hang the run

std::string suite;         // "contract" in rowlock_contract_tests
std::string results_path;  // of --results; empty if there is none
/// A case as doctest knows it, and as people do: "suite/name", and the back end if it stands in a TEST_SUITE
/// of that name and does not name it itself.
struct test_case {
  std::string name;
  std::string full_name;
};

std::vector<test_case> all_cases;
int passed = 0;
int failed = 0;
char running[512] = "";

std::string full_name(doctest::TestCaseData const& test) {
  std::string const name = test.m_name;
  std::string const group = test.m_test_suite;
  bool const said = group.empty() || name.find(group) != name.npos;
  return fmt::format("{}/{}{}", suite, name, said ? "" : " <" + group + ">");
}

void end_hung_case(int) {
  auto say = [](char const* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); };
  say("FAILED  ");
  say(running);
  say(": has not ended within its time\n");
  ::_exit(1);
}

/// doctest's own report of what failed, and besides it a line per case.
class line_reporter : public doctest::ConsoleReporter {
 public:
  explicit line_reporter(doctest::ContextOptions const& options) : ConsoleReporter(options) {}

  void report_query(doctest::QueryData const& query) override {
    for (unsigned i = 0; i < query.num_data; ++i) {
      all_cases.push_back({query.data[i]->m_name, full_name(*query.data[i])});
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
    ++(good ? passed : failed);
    char const* word = good ? "ok" : "FAILED";
    s << fmt::format("{:<7} {} ({:.2f} s){}\n", word, name_, result.seconds,
                     empty ? ": it asserts nothing" : "")
      << std::flush;
    if (!results_path.empty()) std::ofstream{results_path, std::ios::app} << word << ' ' << name_ << '\n';
  }

  void test_run_end(doctest::TestRunStats const&) override {
    s << fmt::format("{} passed, {} failed\n", passed, failed) << std::flush;
  }

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

std::vector<test_case> matching(std::string const& filter) {
  std::vector<test_case> chosen;
  for (auto const& test : all_cases) {
    if (test.full_name == filter) return {test};
    if (contains(test.full_name, filter)) chosen.push_back(test);
  }
  return chosen;
}

/// doctest's list of filters: names with a comma or backslash in them are escaped.
std::string as_filter(std::vector<test_case> const& cases) {
  std::string list;
  for (auto const& test : cases) {
    if (!list.empty()) list += ',';
    for (char c : test.name) {
      if (c == ',' || c == '\\') list += '\\';
      list += c;
    }
  }
  return list;
}

int run(std::vector<test_case> const& cases) {
  doctest::Context context;
  context.setOption("no-skip", true);  // a skipped test would be one that nobody misses
  context.setOption("case-sensitive", true);
  context.setOption("order-by", "file");
  context.addFilter("reporters", "line");
  context.addFilter("test-case", as_filter(cases).c_str());
  int const status = context.run();
  if (passed + failed == 0) {
    std::cerr << "no test was run\n";
    return 1;
  }
  return failed > 0 ? 1 : status;
}

int usage() {
  std::cerr << "usage: rowlock_" << suite << "_tests [--list] [--results FILE] [FILTER]\n"
            << "  FILTER   part of a full name as --list prints it; * and ? are wildcards\n"
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
  std::string filter;
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    if (argument == "--list") {
      list = true;
    } else if (argument == "--results" && i + 1 < argc) {
      results_path = argv[++i];
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
  auto const cases = matching(filter);
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
  return run(cases);
}
