// A wire that is cut between programs and a server: it swallows everything (half-open), or there is nothing
// at its end. Each case is a role, on every server and in every strategy. Bounds are generous; what was
// measured is in the notes.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "cli/program.hpp"
#include "contract/fixture.hpp"
#include "outages/relay.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

using clock_type = std::chrono::steady_clock;

constexpr auto reply_timeout = 2s;
constexpr auto release_timeout = 300ms;
/// What a busy machine may add to any bound.
constexpr auto slack = 20s;

template <class Pair>
struct scene : Pair {
  relay wire{port_of(this->url())};

  /// A manager at this end of the wire.
  lock_manager manager() const {
    auto o = this->options;
    o.reply_timeout = reply_timeout;
    o.release_timeout = release_timeout;
    return lock_manager(observed_by(source_from_url(wire.through(this->url())), this->probe), o);
  }
};

enum class cut { silence, refusal };

char const* name_of(cut how) { return how == cut::silence ? "silence" : "refusal"; }

void make(relay& wire, cut how) { how == cut::silence ? wire.silence() : wire.refuse(); }

/// The time since it was made, for a note: "silence: a try was blocked for 512 ms".
class stopwatch {
 public:
  std::chrono::milliseconds passed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_type::now() - start_);
  }
  void note(cut how, char const* what) const {
    MESSAGE(fmt::format("{}: {} {} ms", name_of(how), what, passed().count()));
  }

 private:
  clock_type::time_point start_ = clock_type::now();
};

/// Whether `call` works, at some point: what has to be done within reply_timeout may be too much for a busy
/// machine.
template <class Call>
bool comes_to_work(Call const& call) {
  return eventually([&] {
    try {
      (void)call();
      return true;
    } catch (error const& e) {
      CHECK((e.reason() == errc::unreachable || e.reason() == errc::in_doubt));
      return false;
    }
  });
}

/// Runs `call`, which must fail as calls do when the database is away. @return how long it took
template <class Call>
void check_fails(cut how, char const* what, std::chrono::milliseconds bound, Call const& call) {
  CAPTURE(what);
  stopwatch const watch;
  try {
    call();
    FAIL_CHECK("it succeeded");
  } catch (error const& e) {
    CAPTURE(e.what());
    CHECK((e.reason() == errc::unreachable || e.reason() == errc::in_doubt));
  }
  CHECK(watch.passed() < bound + slack);
  watch.note(how, what);
}

/// Whether a session waits for a row of this database, or schema.
bool waits_in_server(fixture& f) {
  auto const session = f.source.implementation()->connect(boot_clock::now() + 60s);
  auto const text =
      dialect_of(f) == dialect::mysql
          ? std::string(
                "SELECT count(*) FROM information_schema.processlist WHERE db = database() AND "
                "id <> connection_id() AND info LIKE '%FOR UPDATE%'")
          : fmt::format(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
                f.options.schema);
  auto const found = session->execute({"waits", text}, {}, boot_clock::now() + 60s);
  return backend::as_int(found.rows.at(0).at(0)) > 0;
}

/// `rowlock run OPTIONS... -- COMMAND...` with the pair's strategy and tables.
template <class Pair>
std::unique_ptr<program> rowlock_run(scene<Pair> const& s, std::string const& url, words const& options,
                                     words const& command) {
  words all{rowlock_program, "run", "--strategy", to_string(Pair::how)};
  if (!s.options.schema.empty()) all.insert(all.begin() + 1, {"--schema", s.options.schema});
  all.insert(all.end(), options.begin(), options.end());
  all.push_back("--");
  all.insert(all.end(), command.begin(), command.end());
  return std::make_unique<program>(all, environment{{"ROWLOCK_DB", url}});
}

}  // namespace

#define WIRE_CASE(text) PAIRS_TEMPLATE_CASE(text, pair, all<on_a_server, not_permits>)

#define EACH_CUT(how)                        \
  cut how{};                                 \
  SUBCASE("silence") { how = cut::silence; } \
  SUBCASE("refusal") { how = cut::refusal; }

WIRE_CASE("wire cut: calls with a deadline end by it and the reply timeout, and work again afterwards") {
  EACH_CUT(how);
  scene<pair> s;
  auto m = s.manager();
  auto x = m.make_mutex("x");
  REQUIRE(comes_to_work([&] { auto const sessions_are_open = x.acquire(); }));
  REQUIRE(comes_to_work([&] { return m.list(); }));
  make(s.wire, how);
  check_fails(how, "try_acquire on an open session", reply_timeout, [&] { (void)x.try_acquire(); });
  check_fails(how, "try_acquire on a new one", reply_timeout, [&] { (void)x.try_acquire(); });
  check_fails(how, "try_acquire_for 200 ms", 200ms + reply_timeout, [&] { (void)x.try_acquire_for(200ms); });
  check_fails(how, "list", reply_timeout, [&] { (void)m.list(); });
  check_fails(how, "the first call of a manager", reply_timeout,
              [&] { (void)s.manager().make_mutex("x").try_acquire_for(200ms); });
  s.wire.mend();
  CHECK(x.try_acquire_for(60s));
  CHECK(comes_to_work([&] { return m.list(); }));
}

WIRE_CASE("wire cut: who waits without a deadline rides it out, or is cancelled") {
  EACH_CUT(how);
  scene<pair> s;
  stranger other(s);
  REQUIRE(other.take("x"));
  REQUIRE(other.take("y"));
  auto m = s.manager();
  auto const wait = [&](char const* name, std::stop_token stop) {
    return std::async(std::launch::async, [&m, name, stop] {
      auto lock = m.make_mutex(name).acquire(stop);
      return lock ? acquire_status::acquired : lock.status();
    });
  };
  std::stop_source stop;
  auto patient = wait("x", {});
  auto cancelled = wait("y", stop.get_token());
  auto const* attempt = pair::how == strategy::row_lock ? "lock_take" : "lock_read";
  REQUIRE(eventually([&] { return s.probe->executed(attempt) >= 2; }));
  make(s.wire, how);
  std::this_thread::sleep_for(1s);  // what is to be lived through
  stopwatch const watch;
  stop.request_stop();
  CHECK(cancelled.get() == acquire_status::cancelled);
  CHECK(watch.passed() < 2s + reply_timeout + slack);
  watch.note(how, "a cancelled acquire ended after");
  REQUIRE(other.release("x"));
  s.wire.mend();
  stopwatch const mended;
  CHECK(patient.get() == acquire_status::acquired);
  mended.note(how, "mended, the patient one had it after");
}

WIRE_CASE("wire cut: unlock and destructors block no longer than their bound, and the lock comes back") {
  EACH_CUT(how);
  scene<pair> s;
  auto o = s.options;
  o.release_timeout = release_timeout;
  o.reply_timeout = 60s;  // not what bounds it
  auto m = std::make_unique<lock_manager>(source_from_url(s.wire.through(s.url())), o);
  auto lock = m->make_mutex("x").acquire();
  auto kept = m->make_mutex("kept").acquire();
  REQUIRE(lock);
  REQUIRE(kept);
  make(s.wire, how);
  stopwatch const watch;
  auto const came = lock->release();
  watch.note(how, "release was blocked for");
  CHECK(watch.passed() < release_timeout + slack);
  CHECK(came != release_result::released);
  stopwatch const second;
  m.reset();
  second.note(how, "the manager's destructor was blocked for");
  CHECK(second.passed() < release_timeout + slack);
  s.wire.mend();
  // What the end has no time for goes on behind it.
  if (pair::how == strategy::row_lock)
    CHECK(eventually([&] { return kept->loss().has_value(); }));
  else
    CHECK_FALSE(kept->loss());
}

WIRE_CASE("wire cut: what could not be given back comes back when it is mended") {
  EACH_CUT(how);
  scene<pair> s;
  auto m = s.manager();
  auto lock = m.make_mutex("x", {.ttl = 600s}).acquire();
  REQUIRE(lock);
  make(s.wire, how);
  CHECK(lock->release() != release_result::released);
  s.wire.mend();
  stopwatch const mended;
  CHECK(lock_manager(s.source, s.options).make_mutex("x").try_acquire_for(60s));
  mended.note(how, "mended, another had it after");
}

// The server goes on keeping the wait queue for a session that it takes for living. The other one is another
// process: within one, threads stand in line behind the one that asks the database.
PAIRS_TEMPLATE_CASE(
    "wire cut: who has the wait queue, and is not heard of any more, holds nobody up for long", pair,
    all<in_rows, on_a_server, run_takes>) {
  EACH_CUT(how);
  scene<pair> s;
  stranger other(s);
  REQUIRE(other.take("x"));
  auto m = s.manager();
  std::stop_source stop;
  auto cut_off = std::async(std::launch::async, [&m, stop = stop.get_token()] {
    auto const lock = m.make_mutex("x").acquire(stop);
    return lock.status();
  });
  CHECK(eventually([&] { return s.probe->executed("lock_read") >= 3; }));  // it has the wait queue, and looks
  make(s.wire, how);
  auto const next = rowlock_run(s, s.url(), {"x"}, {"true"});
  std::this_thread::sleep_for(500ms);  // it stands behind the one that is cut off
  CHECK(other.release("x"));
  stopwatch const watch;
  CHECK(next->wait() == 0);
  CHECK(watch.passed() < 1s + slack);
  watch.note(how, "another had it after");
  s.wire.mend();
  bool const had = cut_off.wait_for(60s) == std::future_status::ready;
  stop.request_stop();
  CHECK(had);
}

PAIRS_TEMPLATE_CASE("wire cut: a holder keeps a lease that outlives it", pair, all<in_rows, on_a_server>) {
  EACH_CUT(how);
  scene<pair> s;
  auto m = s.manager();
  auto x = m.make_mutex("x", {.ttl = 120s});
  auto lock = x.acquire();
  REQUIRE(lock);
  make(s.wire, how);
  std::this_thread::sleep_for(1s);  // what is to be lived through
  CHECK(lock->valid());
  CHECK_FALSE(stranger(s).take("x"));
  s.wire.mend();
  CHECK(lock->valid());
  bool extended = false;
  REQUIRE(comes_to_work([&] { extended = lock->extend(120s); }));
  CHECK(extended);
  CHECK(lock->release() != release_result::already_lost);
  stranger other(s);
  CHECK(eventually([&] { return other.sees_free("x"); }));
}

PAIRS_TEMPLATE_CASE("wire cut: a holder hears that a short lease is lost before trust ends", pair,
                    all<in_rows, on_a_server>) {
  EACH_CUT(how);
  scene<pair> s;
  auto m = s.manager();
  // Half a second before trust ends it is told, which is for a busy machine.
  auto x = m.make_mutex("x", {.ttl = 10s});
  auto lock = x.acquire();
  REQUIRE(lock);
  std::atomic<boot_time_point> told{boot_time_point::max()};
  std::stop_callback const hear(lock->loss_token(), [&] { told = boot_clock::now(); });
  make(s.wire, how);
  stopwatch const watch;
  REQUIRE(eventually([&] { return told.load() != boot_time_point::max(); }));
  watch.note(how, "the holder heard of it after");
  CHECK(told.load() <= *lock->trusted_until());
  CHECK(lock->loss() == loss_reason::database_unreachable);
  s.wire.mend();
  CHECK(lock_manager(s.source, s.options).make_mutex("x").try_acquire_for(60s));
}

PAIRS_TEMPLATE_CASE("wire cut: a holder of a row lock hears of it at the next ping", pair, row_locks) {
  EACH_CUT(how);
  scene<pair> s;
  auto m = s.manager();
  auto x = m.make_mutex("x", {.ttl = 6s});
  auto lock = x.acquire();
  REQUIRE(lock);
  make(s.wire, how);
  stopwatch const watch;
  CHECK(eventually([&] { return lock->loss() == loss_reason::session_ended; }));
  watch.note(how, "the holder heard of it after");
  CHECK_FALSE(lock->valid());
  s.wire.mend();
  CHECK(m.make_mutex("x").try_acquire_for(60s));
}

PAIRS_TEMPLATE_CASE("wire cut: rowlock run says so, rides it out, or ends its command in time", pair,
                    all<on_a_server, run_takes>) {
  EACH_CUT(how);
  scene<pair> s;
  auto const run = [&](words const& options, words const& command) {
    return rowlock_run(s, s.wire.through(s.url()), options, command);
  };
  scratch_folder const folder;
  auto const done = folder.file("done");
  auto const tick = folder.file("tick");
  auto const brief = run({"--ttl", "6s", "brief"},
                         {"sh", "-c", "echo ready; while :; do touch " + tick + "; sleep 0.05; done"});
  auto const lasting = run({"--ttl", "90s", "lasting"},
                           {"sh", "-c", "echo ready; while [ ! -e " + done + " ]; do sleep 0.1; done"});
  REQUIRE(brief->prints("ready"));
  REQUIRE(lasting->prints("ready"));
  auto const before = s.wire.passed();
  auto const waiting = run({"lasting"}, {"echo", "done"});
  REQUIRE(eventually(
      [&] { return pair::how == strategy::row_lock ? waits_in_server(s) : s.wire.passed() > before + 80; }));
  make(s.wire, how);
  auto const cut_at = std::filesystem::file_time_type::clock::now();
  stopwatch const watch;
  auto const late = run({"--wait", "1s", "late"}, {"true"});
  CHECK(brief->wait() == 76);
  watch.note(how, "run --ttl 6s itself ended after");
  auto const worked_for =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::filesystem::last_write_time(tick) - cut_at);
  MESSAGE(
      fmt::format("{}: the command of run --ttl 6s worked on for {} ms", name_of(how), worked_for.count()));
  // Before the lease ends; a row lock promises the next ping only.
  CHECK(worked_for < 9s);
  CHECK(late->wait() == 69);
  watch.note(how, "run --wait 1s had said so after");
  CHECK(late->err().find("127.0.0.1") != std::string::npos);
  s.wire.mend();
  std::ofstream(done).close();
  // A row lock is gone with its connection, which the holder hears at the end at the latest.
  bool const lost = pair::how == strategy::row_lock && how == cut::refusal;
  CHECK(lasting->wait() == (lost ? 76 : 0));
  CHECK(waiting->wait() == 0);
  CHECK(waiting->out() == "done\n");
}
