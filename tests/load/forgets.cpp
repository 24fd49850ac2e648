// Clients in processes of their own, and a primary of PostgreSQL that dies while its asynchronous standby
// lags: the standby is promoted, and has forgotten grants. Starts its servers itself. Not one of the tests:
// it runs as long as it is told to.
//
//   rowlock_forgets [ROUNDS [SEED [naive]]]
//
// naive: as soon as the standby is promoted a pulse is put there, as if there were no quarantine
// (lib/doc/quarantine.md). Good is: no overlap, no fall, and no name waits longer than the longest lease and
// 5 s. Only rounds in which a lock that was held has been forgotten count.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.hpp"
#include "support/database_server.hpp"

namespace {

using namespace std::chrono_literals;
using rowlock::boot_clock;
using rowlock::test::database_server;
using rowlock::test::server_kind;
namespace backend = rowlock::backend;

constexpr int clients = 16;
constexpr int names = 6;
constexpr std::array<std::chrono::milliseconds, 3> ttls{2s, 4s, 6s};
constexpr std::chrono::milliseconds longest = 6s;

std::int64_t now_ns() { return boot_clock::now().time_since_epoch().count(); }

/// What one client says of one name. It stays when the client is killed.
struct seat {
  std::atomic<bool> inside = false;
  std::atomic<std::int64_t> trusted_until = 0;
  std::atomic<std::int64_t> token = 0;
};

struct shared_page {
  std::array<std::array<seat, names>, clients> seats;
  std::array<std::atomic<std::int64_t>, names> highest;
  std::array<std::atomic<std::int64_t>, names> granted_at;  ///< the last time
  std::atomic<int> grants = 0;
  std::atomic<int> overlaps = 0;
  std::atomic<int> falls = 0;
  std::atomic<int> lost = 0;
  std::atomic<bool> stop = false;
};

void check_grant(shared_page& page, int me, int name, std::int64_t token) {
  for (int other = 0; other < clients; ++other) {
    auto const& s = page.seats[static_cast<std::size_t>(other)][static_cast<std::size_t>(name)];
    if (other != me && s.inside && s.trusted_until > now_ns()) ++page.overlaps;
  }
  auto& highest = page.highest[static_cast<std::size_t>(name)];
  auto before = highest.load();
  while (before < token && !highest.compare_exchange_weak(before, token)) {
  }
  if (before >= token) ++page.falls;
  page.granted_at[static_cast<std::size_t>(name)] = now_ns();
  ++page.grants;
}

void hold(shared_page& page, int me, int name, rowlock::held_lock& lock, std::chrono::milliseconds how_long) {
  auto& mine = page.seats[static_cast<std::size_t>(me)][static_cast<std::size_t>(name)];
  auto const say_trust = [&] {
    if (auto const until = lock.trusted_until()) mine.trusted_until = until->time_since_epoch().count();
  };
  say_trust();
  mine.token = static_cast<std::int64_t>(lock.token().value);
  mine.inside = true;
  check_grant(page, me, name, mine.token);
  auto const end = boot_clock::now() + how_long;
  while (boot_clock::now() < end && lock.valid()) {
    say_trust();
    std::this_thread::sleep_for(10ms);
  }
  if (!lock.valid()) ++page.lost;
  mine.inside = false;
}

[[noreturn]] void client(shared_page& page, int me, std::string const& address, unsigned seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::minstd_rand random(seed);
  {
    rowlock::lock_manager manager(rowlock::source_from_url(address), {.reply_timeout = 2s});
    while (!page.stop) try {
        int const name = static_cast<int>(random() % names);
        auto const ttl = ttls[random() % ttls.size()];
        auto got = manager.make_mutex(fmt::format("n{}", name), {.ttl = ttl}).try_acquire_for(3s);
        if (got) hold(page, me, name, *got, std::chrono::milliseconds(random() % 5000));
      } catch (rowlock::error const&) {
        std::this_thread::sleep_for(20ms);  // the primary is gone
      }
  }
  ::_exit(0);
}

std::unique_ptr<backend::connection> session_on(database_server const& s) {
  return rowlock::source_from_url(s.address()).implementation()->connect(boot_clock::now() + 20s);
}

std::string text(backend::connection& c, std::string const& sql) {
  return backend::as_text(c.execute({"text", sql}, {}, boot_clock::now() + 20s).rows.at(0).at(0));
}

std::string field(std::string const& conninfo, std::string const& key) {
  std::smatch m;
  std::regex_search(conninfo, m, std::regex(key + "=(\\S+)"));
  return m[1];
}

struct outcome {
  int grants = 0, overlaps = 0, falls = 0, lost = 0, forgotten = 0;
  double longest_wait = 0;
};

outcome round(unsigned seed, bool naive) {
  std::minstd_rand random(seed);
  database_server primary(server_kind::postgresql,
                          {.settings = {"wal_level = replica", "max_wal_senders = 4"}});
  rowlock::migrator(rowlock::source_from_url(primary.address())).up();
  database_server standby(server_kind::postgresql, {.standby_of = &primary});
  auto const address = fmt::format(
      "host=127.0.0.1,127.0.0.1 port={},{} dbname=postgres user=rowlock password={} "
      "target_session_attrs=read-write",
      field(primary.address(), "port"), field(standby.address(), "port"),
      field(primary.address(), "password"));
  auto* const memory =
      ::mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& page = *new (memory) shared_page;
  std::vector<pid_t> children;
  for (int i = 0; i < clients; ++i) {
    pid_t const child = ::fork();
    if (child == 0) client(page, i, address, seed * 100 + static_cast<unsigned>(i));
    children.push_back(child);
  }
  std::this_thread::sleep_for(2s);
  auto const there = session_on(standby);
  there->script("ALTER SYSTEM SET primary_conninfo = ''", boot_clock::now() + 20s);
  there->script("SELECT pg_reload_conf()", boot_clock::now() + 20s);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000 + random() % 4000));
  primary.kill();
  outcome out;
  std::array<std::int64_t, names> held{};
  for (int n = 0; n < names; ++n)
    for (auto const& of_client : page.seats) {
      auto const& s = of_client[static_cast<std::size_t>(n)];
      if (s.inside && s.trusted_until > now_ns()) held[static_cast<std::size_t>(n)] = s.token;
    }
  text(*there, "SELECT pg_promote()::text");
  auto const promoted = now_ns();
  auto const admin = session_on(standby);
  for (int n = 0; n < names; ++n) {
    auto const sql = fmt::format(
        "SELECT coalesce(max(token) FILTER (WHERE term IS NOT NULL), 0)::text FROM public.rowlock_locks "
        "WHERE name "
        "= 'n{}'",
        n);
    if (held[static_cast<std::size_t>(n)] > std::stoll(text(*admin, sql))) ++out.forgotten;
  }
  if (naive)
    admin->script(
        "INSERT INTO public.rowlock_pulse (safe_from, reach, until, begun, base) VALUES (clock_timestamp(), "
        "300000, 'infinity', "
        "'-infinity', 0)",
        boot_clock::now() + 20s);
  // Until each name was granted again.
  auto const all_granted = [&] {
    for (auto const& at : page.granted_at)
      if (at < promoted) return false;
    return true;
  };
  while (!all_granted() && now_ns() - promoted < 60'000'000'000) std::this_thread::sleep_for(10ms);
  out.longest_wait = static_cast<double>(now_ns() - promoted) / 1e9;
  std::this_thread::sleep_for(1s);
  page.stop = true;
  for (auto const child : children) ::waitpid(child, nullptr, 0);
  out.grants = page.grants;
  out.overlaps = page.overlaps;
  out.falls = page.falls;
  out.lost = page.lost;
  ::munmap(memory, sizeof(shared_page));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  int const rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  unsigned const seed = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1;
  bool const naive = argc > 3 && std::string(argv[3]) == "naive";
  nlohmann::json total{{"rounds", 0},   {"counted", 0}, {"grants", 0}, {"forgotten", 0},
                       {"overlaps", 0}, {"falls", 0},   {"lost", 0},   {"longest_wait_s", 0.0}};
  for (int i = 0; i < rounds; ++i) {
    auto const r = round(seed + static_cast<unsigned>(i), naive);
    fmt::print(
        stderr,
        "seed {}: {} grants, {} forgotten, {} lost, {} overlaps, {} falls, all granted after {:.1f} s\n",
        seed + static_cast<unsigned>(i), r.grants, r.forgotten, r.lost, r.overlaps, r.falls, r.longest_wait);
    total["rounds"] = total["rounds"].get<int>() + 1;
    if (r.forgotten == 0) continue;
    total["counted"] = total["counted"].get<int>() + 1;
    total["grants"] = total["grants"].get<int>() + r.grants;
    total["forgotten"] = total["forgotten"].get<int>() + r.forgotten;
    total["overlaps"] = total["overlaps"].get<int>() + r.overlaps;
    total["falls"] = total["falls"].get<int>() + r.falls;
    total["lost"] = total["lost"].get<int>() + r.lost;
    total["longest_wait_s"] = std::max(total["longest_wait_s"].get<double>(), r.longest_wait);
  }
  fmt::print("{}\n", total.dump());
  return total["overlaps"] == 0 && total["falls"] == 0 ? 0 : 1;
}
