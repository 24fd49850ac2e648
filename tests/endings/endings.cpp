// The table of endings: a process ends by itself in every way there is, with manager, mutexes and handles in
// every place, on every back end, whatever became of its sessions. ROWLOCK_ENDINGS=N: all combinations N
// times, and the table is printed; otherwise each pair of them once. ROWLOCK_ENDINGS_OF=TEXT: only those
// whose name has it in it, such as "static exit-in-hook broken".
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "contract/fixture.hpp"
#include "outages/relay.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

constexpr std::array places{"static", "thread", "heap", "stack"};
constexpr std::array ends{"return",           "exit",         "exit-in-thread", "exit-in-handler",
                          "exit-in-callback", "exit-in-hook", "exit-in-policy", "exception"};
/// Of the sessions: alive; alive, and a lock was lost; they were reset a moment ago; the server was away, and
/// comes back as the process ends; it says nothing.
enum class sessions { alive, lost_lock, broken, reconnecting, silent };
constexpr std::array<char const*, 5> names_of_sessions{"alive", "lost lock", "broken", "reconnecting",
                                                       "silent"};

// Far more than release_timeout: the machine is busy, and that it hangs is what is looked for.
constexpr auto bound = 40s;

int times() {
  char const* const n = std::getenv("ROWLOCK_ENDINGS");
  return n == nullptr ? 0 : std::atoi(n);
}

struct combination {
  std::string place;
  std::string end;
  sessions state;
  /// Where nothing comes, all of it is waited for.
  std::chrono::milliseconds release_timeout() const { return state == sessions::silent ? 500ms : 10s; }
  std::string text() const {
    return fmt::format("{} {} {}", place, end, names_of_sessions[static_cast<std::size_t>(state)]);
  }
};

/// The server behind a wire, or the file.
class scene {
 public:
  explicit scene(fixture& f) : f_(f), other_(f) {
    if (dialect_of(f) != dialect::sqlite) wire_.emplace(port_of(f.url()));
    REQUIRE(other_.take("foreign", 24h));
  }

  void run(combination const& c) {
    CAPTURE(c.text());
    if (times() > 0) ::alarm(240);  // the bound of a case, for each of its runs
    if (wire_) wire_->mend();
    auto const url = wire_ ? wire_->through(f_.url()) : f_.url();
    child_process program({ROWLOCK_ENDING, url, f_.options.schema, to_string(f_.options.strategy), c.place,
                           c.end, std::to_string(c.release_timeout().count())});
    auto const ready = program.next_line(60s);
    REQUIRE(ready == "ready");
    prepare(c, program);
    auto const began = std::chrono::steady_clock::now();
    if (c.end == "exit-in-callback")
      lose();
    else
      program.write_line("end");
    if (c.state == sessions::reconnecting) wire_->mend();
    program.read_for(bound);
    auto const took = std::chrono::steady_clock::now() - began;
    if (took > longest) slowest = c.text();
    longest = std::max(longest, took);
    if (took >= bound) program.kill();
    auto const status = program.finish();
    CHECK(status == (c.end == "exception" ? 128 + SIGABRT : 7));
    CHECK(took < bound);
    // Where the handle's own destructor runs before anybody can know that the process ends, its lock is free.
    bool const given_back_before = c.place == "thread" || c.place == "stack";
    if (!given_back_before) CHECK(program.output().find("acquired") == std::string::npos);
    CHECK(program.output().find("at the database acquired") == std::string::npos);
    CHECK(program.output().find("too late") == std::string::npos);
    // By an exception nothing is given back, and where the server can't be reached nothing can be.
    bool const can = c.end != "exception" && c.state != sessions::silent;
    if (can) CHECK(is_free("held"));
    CHECK(is_free("all"));  // nobody gets that
    if (can && c.end != "exit-in-handler") CHECK(is_free("lost"));
    if (wire_) wire_->refuse();  // what the program has left behind
    clear();
    ++runs;
  }

  int runs = 0;
  std::chrono::steady_clock::duration longest{0};
  std::string slowest;

 private:
  void prepare(combination const& c, child_process& program) {
    if (c.state == sessions::lost_lock && c.end != "exit-in-callback") {
      lose();
      REQUIRE(program.read_until("lost\n"));
    }
    if (!wire_) return;
    if (c.state == sessions::broken) wire_->reset();
    if (c.state == sessions::reconnecting) wire_->refuse();
    if (c.state == sessions::silent) wire_->silence();
  }
  void lose() { CHECK(lock_manager(f_.source, f_.options).revoke("lost", revoke_mode::at_renewal)); }
  bool is_free(std::string const& name) { return other_.sees_free(name); }
  void clear() { f_.sql("DELETE FROM rowlock_locks WHERE name <> 'foreign'"); }

  fixture& f_;
  stranger other_;
  std::optional<relay> wire_;
};

std::vector<sessions> states_of(fixture& f) {
  if (dialect_of(f) == dialect::sqlite) return {sessions::alive, sessions::lost_lock};
  return {sessions::alive, sessions::lost_lock, sessions::broken, sessions::reconnecting, sessions::silent};
}

bool asked_for(combination const& c) {
  char const* const part = std::getenv("ROWLOCK_ENDINGS_OF");
  return part == nullptr || c.text().find(part) != std::string::npos;
}

/// Those that make sense: whoever is told of a loss, or of an error, needs a server that speaks.
bool makes_sense(combination const& c) {
  bool const may_lose = c.state == sessions::alive || c.state == sessions::lost_lock;
  if (c.end == "exit-in-callback") return may_lose;
  return c.end != "exit-in-hook" || c.state != sessions::lost_lock;  // nothing is renewed soon
}

void run_table(fixture& f, char const* backend) {
  scene s(f);
  for (auto const state : states_of(f))
    for (std::size_t e = 0; e < ends.size(); ++e)
      for (std::size_t p = 0; p < places.size(); ++p) {
        combination const c{places[p], ends[e], state};
        // Each pair of place, end and state comes up, though not each three of them.
        bool const chosen = (p + e + static_cast<std::size_t>(state)) % places.size() == 0;
        if (!makes_sense(c) || !asked_for(c) || (times() == 0 && !chosen)) continue;
        for (int i = 0; i < std::max(times(), 1); ++i) s.run(c);
      }
  if (times() > 0)
    MESSAGE(fmt::format("{} {}: {} runs, the longest end took {} ms: {}", to_string(f.options.strategy),
                        backend, s.runs,
                        std::chrono::duration_cast<std::chrono::milliseconds>(s.longest).count(), s.slowest));
}

}  // namespace

PAIRS_CASE("C2: a process ends with its own status, in time, and leaves no lock behind", leases) {
  run_table(f, pair.backend);
}
