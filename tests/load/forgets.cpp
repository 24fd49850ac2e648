// Clients in processes of their own, and a database that forgets what it has granted: its server is killed
// under load. Starts its servers itself. Not one of the tests: it runs as long as it is told to.
// usage() has the arguments, and what is good.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <rowlock/rowlock.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "guard/program.hpp"
#include "load/forgetful.hpp"

namespace {

using namespace std::chrono_literals;
using rowlock::boot_clock;
using rowlock::test::forgetful;

constexpr auto usage = R"(usage: rowlock_forgets KIND ROUNDS SEED [WORD...]
  Each round makes new servers, has 16 processes lock 6 names with leases of 2, 4 and 6 s, kills the server soon after a
  grant, and waits until each name was granted again. The rounds have the seeds SEED, SEED + 1 and so on. Prints a line
  for each round, and the sum as JSON.
KIND:
  pair-postgresql, pair-mariadb, pair-mysql
                 an asynchronous replica, which hears of nothing for the last 1 to 5 s, is promoted
  crash-postgresql, crash-mariadb, crash-mysql
                 one server that does not flush its commits at once is started again
WORD:
  naive          what came back grants at once, as if there were no quarantine (lib/doc/quarantine.md): must show overlaps
  unguarded      what clients write beside their lock does without require(): with naive it can show lost writes
  behind         the clock of what comes back is 30 s behind: with naive tokens fall
  long           two names are locked for 12 h and detached: before the lag, and within. The quarantine lasts 5 minutes
  raised         leases of 4 and 6 s are granted from the beginning of the lag on only. Not covered: can show overlaps
  lazy           crash-mariadb, crash-mysql: the server writes its log each 3 s instead of each second
Of the sum:
  counted        rounds in which a lock that was held has been forgotten. The other figures are of these alone
  forgotten      locks of the 6 names that were held when the server died, and are not in what came back
  overlaps       grants while another process trusted its lock on the name
  falls          tokens that were not above all before them
  writes         transactions that were committed with require()
  lost_writes    of these: another process had got the lock, or had written, later
  losses         locks that clients were told to have lost
  longest_wait_s from when the server was back to the last name's first grant
  long_forgotten, long_overlaps
                 locks of 12 h that were forgotten, and grants of these beside their holders: not covered, not counted
                 as overlaps
  failed         rounds that came to no end
Good, and status 0, is: no overlap, fall or lost write, no failed round, and no wait above allowed_wait_s, the longest
lease and 5 s (behind: three times the lease).
)";

constexpr int clients = 16;
constexpr int names = 6;
constexpr int all_names = names + 2;  // two for detached locks, the second within the lag
constexpr std::array<std::chrono::milliseconds, 3> ttls{2s, 4s, 6s};
constexpr std::chrono::milliseconds longest = 6s;

std::int64_t now_ns() { return boot_clock::now().time_since_epoch().count(); }

template <class T>
T& at(std::array<T, all_names>& all, int name) {
  return all[static_cast<std::size_t>(name)];
}

void raise_to(std::atomic<std::int64_t>& highest, std::int64_t n) {
  auto before = highest.load();
  while (before < n && !highest.compare_exchange_weak(before, n)) {
  }
}

struct choices {
  bool naive = false, unguarded = false, with_long = false, raised = false, behind = false, lazy = false;
};

constexpr std::array<std::pair<std::string_view, bool choices::*>, 6> words{
    {{"naive", &choices::naive},
     {"unguarded", &choices::unguarded},
     {"long", &choices::with_long},
     {"raised", &choices::raised},
     {"behind", &choices::behind},
     {"lazy", &choices::lazy}}};

/// What one client says of one name. It stays when the client is killed.
struct seat {
  std::atomic<bool> inside = false;
  std::atomic<std::int64_t> trusted_until = 0;
  std::atomic<std::int64_t> token = 0;
  bool held() const { return inside && trusted_until > now_ns(); }
};

struct shared_page {
  std::array<std::array<seat, all_names>, clients> seats;
  std::array<std::atomic<std::int64_t>, all_names> highest;
  std::array<std::atomic<std::int64_t>, all_names> granted_at;  ///< the last time
  std::array<std::atomic<int>, all_names> overlaps;
  std::atomic<int> grants = 0, falls = 0, losses = 0, writes = 0, lost_writes = 0;
  std::atomic<bool> lagging = false, stop = false;
  std::atomic<std::int64_t> back = 0;  ///< since when the server is
};

/// One process.
class client {
 public:
  client(shared_page& page, int me, forgetful const& servers, choices const& chosen, unsigned seed)
      : page_(page),
        me_(me),
        servers_(servers),
        chosen_(chosen),
        random_(seed),
        manager_(rowlock::source_from_url(servers.address()), {.reply_timeout = 2s}) {}

  void run() {
    while (!page_.stop) try {
        if (chosen_.with_long && random_() % 8 == 0) hold_for_long();
        auto const name = some_name();
        auto& mine = seat_of(me_, name);
        // The lock's trust goes on while this thread writes.
        auto got = manager_
                       .make_mutex(fmt::format("n{}", name),
                                   {.ttl = some_ttl(),
                                    .on_trust =
                                        [&mine](rowlock::boot_time_point until) {
                                          raise_to(mine.trusted_until, until.time_since_epoch().count());
                                        }})
                       .try_acquire_for(chosen_.behind ? 15s : 3s);
        if (got) hold(name, *got);
      } catch (rowlock::error const&) {
        std::this_thread::sleep_for(20ms);  // The server is gone.
      }
  }

 private:
  seat& seat_of(int who, int name) { return at(page_.seats[static_cast<std::size_t>(who)], name); }

  /// Somebody asks for each name until it was granted again.
  int some_name() {
    auto const mine = me_ % names;
    return at(page_.granted_at, mine) < page_.back ? mine : static_cast<int>(random_() % names);
  }
  std::chrono::milliseconds some_ttl() {
    return ttls[chosen_.raised && !page_.lagging ? 0 : random_() % ttls.size()];
  }

  bool held_by_others(int name, std::int64_t after_token) {
    for (int other = 0; other < clients; ++other)
      if (other != me_ && seat_of(other, name).held() && seat_of(other, name).token > after_token)
        return true;
    return false;
  }

  /// Says of an overlap what it knows.
  void look_at(int name, int other) {
    auto const& theirs = seat_of(other, name);
    if (other == me_ || !theirs.held()) return;
    ++at(page_.overlaps, name);
    auto const now = now_ns();
    auto const in_ms = [](std::int64_t ns) { return ns / 1'000'000; };
    fmt::print(
        stderr, "overlap: n{}, {}: client {} got token {}, client {} trusts token {} for {} ms more\n", name,
        page_.back == 0 ? "before the server was back"
                        : fmt::format("{} ms after the server was back", in_ms(now - page_.back)),
        me_, seat_of(me_, name).token.load(), other, theirs.token.load(), in_ms(theirs.trusted_until - now));
  }

  void enter(int name, rowlock::held_lock const& lock) {
    auto& mine = seat_of(me_, name);
    auto const token = static_cast<std::int64_t>(lock.token().value);
    if (auto const until = lock.trusted_until()) mine.trusted_until = until->time_since_epoch().count();
    mine.token = token;
    mine.inside = true;
    for (int other = 0; other < clients; ++other) look_at(name, other);
    auto& highest = at(page_.highest, name);
    auto before = highest.load();
    while (before < token && !highest.compare_exchange_weak(before, token)) {
    }
    if (before >= token) ++page_.falls;
    at(page_.granted_at, name) = now_ns();
    ++page_.grants;
  }

  void hold(int name, rowlock::held_lock& lock) {
    enter(name, lock);
    auto const end = boot_clock::now() + std::chrono::milliseconds(random_() % 5000);
    while (boot_clock::now() < end && lock.valid()) {
      if (random_() % 50 == 0) write(name, lock);
      std::this_thread::sleep_for(10ms);
    }
    if (!lock.valid()) ++page_.losses;
    seat_of(me_, name).inside = false;
  }

  /// Nobody releases it.
  void hold_for_long() {
    auto const name = names + static_cast<int>(random_() % (page_.lagging ? 2 : 1));
    if (seat_of(me_, name).inside) return;
    auto got = manager_.make_mutex(fmt::format("n{}", name), {.ttl = 12h, .renew = false}).try_acquire();
    if (!got) return;
    enter(name, *got);
    (void)got->detach();
  }

  /// The program's own transaction: the token is written beside the lock.
  void write(int name, rowlock::held_lock const& lock) try {
    auto& program = program_on_primary();
    auto const token = static_cast<std::int64_t>(lock.token().value);
    program.run("START TRANSACTION");
    if (!chosen_.unguarded) program.view(manager_)->require(lock);
    auto const row = fmt::format("WHERE name = 'n{}'", name);
    auto const before =
        std::stoll(program.value("SELECT token FROM counters " + row + " FOR UPDATE").value());
    program.run(fmt::format("UPDATE counters SET token = {} {}", token, row));
    // While the guard has the row nobody is granted the lock.
    bool const late = before > token || held_by_others(name, token);
    program.commit();
    ++page_.writes;
    if (late) ++page_.lost_writes;
  } catch (std::exception const&) {
    program_.reset();  // and with it the transaction
  }

  rowlock::test::program& program_on_primary() {
    for (auto const& address : servers_.addresses()) try {
        if (program_) break;
        bool const mysql = address.starts_with("mysql:");
        auto p = rowlock::test::connect_by(
            mysql ? rowlock::test::driver::connector : rowlock::test::driver::libpq, address);
        if (!mysql || p->value("SELECT @@global.read_only") == "0") program_ = std::move(p);
      } catch (rowlock::test::refused_statement const&) {
        // It is dead. The next one?
      }
    if (!program_) throw std::runtime_error("no server takes writes");
    return *program_;
  }

  shared_page& page_;
  int me_;
  forgetful const& servers_;
  choices chosen_;
  std::minstd_rand random_;
  rowlock::lock_manager manager_;
  std::unique_ptr<rowlock::test::program> program_;
};

/// The processes, and the memory that they share. They end with it.
class crowd {
 public:
  crowd(forgetful const& servers, choices const& chosen, unsigned seed)
      : page_(*new (::mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                           -1, 0)) shared_page) {
    for (int i = 0; i < clients; ++i) {
      pid_t const child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        client(page_, i, servers, chosen, seed * 100 + static_cast<unsigned>(i)).run();
        ::_exit(0);
      }
      children_.push_back(child);
    }
  }
  ~crowd() {
    page_.stop = true;
    for (auto const child : children_) ::waitpid(child, nullptr, 0);
    ::munmap(&page_, sizeof(shared_page));
  }
  crowd(crowd const&) = delete;
  crowd& operator=(crowd const&) = delete;

  shared_page& page() { return page_; }

  /// The highest token of each name that is held; 0: none.
  std::array<std::int64_t, all_names> held_tokens() {
    std::array<std::int64_t, all_names> held{};
    for (auto& of_client : page_.seats)
      for (int n = 0; n < all_names; ++n)
        if (auto const& s = at(of_client, n); s.held()) at(held, n) = std::max(at(held, n), s.token.load());
    return held;
  }
  /// What was granted just now is forgotten, even if the lag is short. Two seconds at most.
  void wait_for_grant() {
    auto const then = now_ns();
    auto const later = [&](auto const& last) { return last >= then; };
    while (std::none_of(page_.granted_at.begin(), page_.granted_at.end(), later) &&
           now_ns() - then < 2'000'000'000)
      std::this_thread::sleep_for(5ms);
  }
  bool all_granted_since(std::int64_t then) {
    return std::all_of(page_.granted_at.begin(), page_.granted_at.begin() + names,
                       [&](auto const& last) { return last >= then; });
  }

 private:
  shared_page& page_;
  std::vector<pid_t> children_;
};

// Where the clock went back a waiter watches what is left of a dead holder: twice the lease
// (lib/doc/lease.md).
std::chrono::milliseconds allowed_wait(choices const& chosen) {
  auto const lease = chosen.with_long ? 300s : longest;
  return 5s + (chosen.behind ? 3 * lease : lease);
}

nlohmann::json round(std::string const& kind, unsigned seed, choices const& chosen) {
  std::minstd_rand random(seed);
  auto const servers = rowlock::test::make_forgetful(kind, {.seed = seed,
                                                            .longest = chosen.raised ? 0ms : longest,
                                                            .names = names,
                                                            .behind = chosen.behind,
                                                            .lazy = chosen.lazy});
  crowd crowd(*servers, chosen, seed);
  auto& page = crowd.page();
  std::this_thread::sleep_for(2s);
  servers->lag();
  page.lagging = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 + random() % 4000));
  crowd.wait_for_grant();
  servers->kill();
  auto held = crowd.held_tokens();
  servers->come_back();
  auto const back = now_ns();
  page.back = back;
  auto const* const schema = forgetful::is_postgresql(kind) ? "public." : "";
  // By tokens, which a row keeps: its holder may have released the lock by now.
  std::array<bool, all_names> forgotten{};
  for (int n = 0; n < all_names; ++n)
    at(forgotten, n) =
        at(held, n) >
        servers->number(
            fmt::format("SELECT coalesce(max(token), 0) FROM {}rowlock_locks WHERE name = 'n{}'", schema, n));
  if (chosen.naive) servers->pulse_at_once();
  auto const patience = std::chrono::nanoseconds(allowed_wait(chosen) + 30s).count();
  while (!crowd.all_granted_since(back) && now_ns() - back < patience) std::this_thread::sleep_for(10ms);
  auto const waited = static_cast<double>(now_ns() - back) / 1e9;
  std::this_thread::sleep_for(1s);
  int overlaps = 0, long_overlaps = 0;
  for (int n = 0; n < all_names; ++n)
    (n >= names && at(forgotten, n) ? long_overlaps : overlaps) += at(page.overlaps, n);
  return {{"grants", page.grants.load()},
          {"forgotten", std::count(forgotten.begin(), forgotten.begin() + names, true)},
          {"overlaps", overlaps},
          {"falls", page.falls.load()},
          {"writes", page.writes.load()},
          {"lost_writes", page.lost_writes.load()},
          {"losses", page.losses.load()},
          {"long_forgotten", std::count(forgotten.begin() + names, forgotten.end(), true)},
          {"long_overlaps", long_overlaps},
          {"longest_wait_s", waited}};
}

void add(nlohmann::json& total, nlohmann::json const& one) {
  ++total["counted"].get_ref<nlohmann::json::number_integer_t&>();
  for (auto const& [key, value] : one.items())
    if (value.is_number_float())
      total[key] = std::max(total.value(key, 0.0), value.get<double>());
    else
      total[key] = total.value(key, 0) + value.get<int>();
}

int sum(std::string const& kind, int rounds, unsigned seed, choices const& chosen) {
  nlohmann::json total{{"kind", kind}, {"rounds", rounds}, {"counted", 0}, {"failed", 0}};
  for (unsigned s = seed; s < seed + static_cast<unsigned>(rounds); ++s) try {
      auto const one = round(kind, s, chosen);
      fmt::print(stderr, "{} seed {}: {}\n", kind, s, one.dump());
      if (one["forgotten"] != 0) add(total, one);
    } catch (std::exception const& e) {
      fmt::print(stderr, "{} seed {}: failed: {}\n", kind, s, e.what());
      total["failed"] = total["failed"].get<int>() + 1;
    }
  auto const allowed = static_cast<double>(allowed_wait(chosen).count()) / 1e3;
  total["allowed_wait_s"] = allowed;
  fmt::print("{}\n", total.dump());
  bool const good = total["failed"] == 0 && total.value("overlaps", 0) == 0 && total.value("falls", 0) == 0 &&
                    total.value("lost_writes", 0) == 0 && total.value("longest_wait_s", 0.0) <= allowed;
  return good ? 0 : 1;
}

/// -1: it is none.
int number(std::string const& text) {
  int n = -1;
  auto const* const end = text.data() + text.size();
  auto const [stopped, problem] = std::from_chars(text.data(), end, n);
  return problem == std::errc() && stopped == end ? n : -1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
    fmt::print("{}", usage);
    return 0;
  }
  auto const kinds = forgetful::kinds();
  bool known = arguments.size() >= 3 && std::count(kinds.begin(), kinds.end(), arguments[0]) == 1 &&
               number(arguments[1]) > 0 && number(arguments[2]) >= 0;
  choices chosen;
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    auto const word =
        std::find_if(words.begin(), words.end(), [&](auto const& w) { return w.first == arguments[i]; });
    if (word == words.end())
      known = false;
    else
      chosen.*(word->second) = true;
  }
  if (!known) {
    fmt::print(stderr, "{}", usage);
    return 64;
  }
  return sum(arguments[0], number(arguments[1]), static_cast<unsigned>(number(arguments[2])), chosen);
}
