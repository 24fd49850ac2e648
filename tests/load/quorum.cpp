// Clients in processes of their own under one lock of a quorum, whose members (PostgreSQL, MariaDB, an SQLite
// file) are killed, stopped, cut off, moved in time, and wiped and joined again, one after the other; clients
// are killed and stopped, too. Starts its servers itself. Prints what it saw as JSON. Not one of the tests:
// it runs as long as it is told to.
//
//   rowlock_quorum_load [SECONDS [CLIENTS [faults [PART] | calm [sqlite-first]]]]
//
// PART: of the faults' names: only those. calm: no faults, and empty sections; and before it, what a take and
// a release cost one client alone, beside those of a lease at each member.
//
// Good is: no overlap, no fall, no late loss; without a fault of its own no client lost a lock; and there was
// never longer than two ttl and 5 s (9 s) between two grants.
#include <fmt/format.h>
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
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
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

constexpr int most = 32;
constexpr std::chrono::milliseconds ttl = 2s;

std::int64_t now_ns() { return boot_clock::now().time_since_epoch().count(); }

/// One process, as it says itself: what it does stays here when it is killed.
struct seat {
  std::atomic<bool> inside = false;
  std::atomic<std::int64_t> trusted_until = 0;
  std::atomic<std::int64_t> stopped_at = 0;  ///< by the conductor, last
};

struct shared_page {
  std::array<seat, most> seats;
  std::atomic<std::int64_t> token = 0;  ///< the highest so far
  std::atomic<std::int64_t> granted_at = 0;
  std::atomic<std::int64_t> longest_without = 0;
  std::atomic<long long> acquisitions = 0;
  std::atomic<long long> overlaps = 0;
  std::atomic<long long> falls = 0;
  std::atomic<long long> losses = 0;
  std::atomic<long long> unprovoked = 0;  ///< of these: of clients that had not been stopped
  std::atomic<long long> late = 0;        ///< losses that were told after trust had ended
  std::atomic<long long> errors = 0;
  std::atomic<bool> over = false;
  bool calm = false;  ///< no faults, and empty sections
};

void raise_to(std::atomic<std::int64_t>& highest, std::int64_t n) {
  auto before = highest.load();
  while (before < n && !highest.compare_exchange_weak(before, n)) {
  }
}

struct client {
  shared_page& page;
  int mine;
  std::vector<std::string> urls;
  std::mt19937 random{std::random_device{}()};

  bool was_stopped_since(std::int64_t t) const {
    return page.seats[static_cast<std::size_t>(mine)].stopped_at > t - 1'000'000'000;
  }

  void look_round(rowlock::quorum_lock const& lock) {
    auto const now = now_ns();
    for (int i = 0; i < most; ++i) {
      auto const& s = page.seats[static_cast<std::size_t>(i)];
      if (i != mine && s.inside && s.trusted_until > now && lock.valid()) ++page.overlaps;
    }
  }

  void hold(rowlock::quorum_lock& lock) {
    auto& s = page.seats[static_cast<std::size_t>(mine)];
    auto const began = now_ns();
    s.trusted_until = lock.trusted_until().time_since_epoch().count();
    s.inside = true;
    look_round(lock);
    if (page.token.load() >= lock.token().value) ++page.falls;
    raise_to(page.token, lock.token().value);
    raise_to(page.longest_without, began - page.granted_at.exchange(began));
    ++page.acquisitions;
    std::stop_callback const told(lock.loss_token(), [&] {
      ++page.losses;
      if (was_stopped_since(began)) return;
      ++page.unprovoked;
      if (boot_clock::now() > lock.trusted_until()) ++page.late;
    });
    // Now and then for longer than the ttl.
    auto const length = page.calm              ? 0ms
                        : random() % 5000 == 0 ? 2 * ttl
                                               : std::chrono::milliseconds(random() % 5);
    auto const until = boot_clock::now() + length;
    while (boot_clock::now() < until && lock.valid()) {
      s.trusted_until = lock.trusted_until().time_since_epoch().count();
      std::this_thread::sleep_for(1ms);  // the section
    }
    look_round(lock);
    s.inside = false;
    (void)lock.release();
  }

  void work() {
    std::vector<std::unique_ptr<rowlock::lock_manager>> managers;
    std::vector<rowlock::lock_manager*> each;
    rowlock::manager_options o;
    o.reply_timeout = 2s;
    for (auto const& url : urls) {
      managers.push_back(std::make_unique<rowlock::lock_manager>(url, o));
      each.push_back(managers.back().get());
    }
    rowlock::quorum quorum(each);
    rowlock::mutex_options how;
    how.ttl = ttl;
    auto m = quorum.make_mutex("x", how);
    while (!page.over) {
      try {
        auto got = m.try_acquire_for(1s);
        if (got) hold(*got);
      } catch (rowlock::error const& e) {
        if (++page.errors <= 20) std::cerr << "client " << mine << ": " << e.what() << '\n';
        std::this_thread::sleep_for(100ms);
      }
    }
  }
};

class conductor {
 public:
  conductor(shared_page& page, int clients, bool sqlite_first)
      : page_(page),
        postgresql_(server_kind::postgresql,
                    {.durable = true, .max_connections = 200, .movable_clock = true}),
        mariadb_(server_kind::mariadb, {.durable = true, .max_connections = 200, .movable_clock = true}),
        urls_{postgresql_.address(), mariadb_.address(), "sqlite:" + folder_.file("member.db")} {
    for (std::size_t i = 0; i < urls_.size(); ++i) migrate(i);
    with_quorum([](rowlock::quorum& q) { q.init(ttl); });
    if (page_.calm && sqlite_first) std::rotate(urls_.begin(), urls_.begin() + 2, urls_.end());
    if (page_.calm) measure_one_client();
    page_.granted_at = now_ns();
    for (int i = 0; i < clients; ++i) pids_.push_back(start(i));
  }

  void run(std::chrono::seconds length, bool faults, std::string const& only) {
    auto const end = boot_clock::now() + length;
    std::vector<std::pair<char const*, std::function<void()>>> const all{
        {"postgresql killed", [&] { restart(postgresql_); }},
        {"postgresql stopped", [&] { stop(postgresql_); }},
        {"postgresql cut off", [&] { cut_off(0); }},
        {"postgresql an hour on", [&] { move(postgresql_, 1h); }},
        {"mariadb killed", [&] { restart(mariadb_); }},
        {"mariadb stopped", [&] { stop(mariadb_); }},
        {"mariadb cut off", [&] { cut_off(1); }},
        {"mariadb an hour back", [&] { move(mariadb_, -1h); }},
        {"sqlite wiped and joined", [&] { wipe(2); }},
        {"postgresql an hour back", [&] { move(postgresql_, -1h); }},
        {"mariadb an hour on", [&] { move(mariadb_, 1h); }},
        {"postgresql wiped and joined", [&] { wipe(0); }},
        {"mariadb wiped and joined", [&] { wipe(1); }},
    };
    for (std::size_t next = 0; boot_clock::now() < end; ++next) {
      if (std::string(all[next % all.size()].first).find(only) == std::string::npos) continue;
      if (!faults) {
        pause(200ms);
        continue;
      }
      auto const& [name, fault] = all[next % all.size()];
      auto const before = page_.acquisitions.load();
      auto const unprovoked = page_.unprovoked.load();
      std::cerr << fmt::format("{:5.0f} s left  {}",
                               std::chrono::duration<double>(end - boot_clock::now()).count(), name);
      {
        std::jthread const tells([&](std::stop_token stop) {  // each second
          for (auto last = page_.acquisitions.load(); !stop.stop_requested();) {
            pause(1s);
            std::cerr << ' ' << page_.acquisitions - std::exchange(last, page_.acquisitions.load());
          }
        });
        fault();
      }
      done_[name] += 1;
      lost_in_[name] += page_.unprovoked - unprovoked;
      std::cerr << fmt::format(": {} grants\n", page_.acquisitions - before);
      disturb_clients();
      pause(1s);
    }
  }

  nlohmann::ordered_json finish(std::chrono::seconds length) {
    page_.over = true;
    for (auto const pid : pids_) ::kill(pid, SIGCONT);
    for (auto const pid : pids_) ::waitpid(pid, nullptr, 0);
    nlohmann::ordered_json faults;
    for (auto const& [name, n] : done_) faults[name] = n;
    nlohmann::ordered_json lost;
    for (auto const& [name, n] : lost_in_)
      if (n > 0) lost[name] = n;
    return {{"seconds", length.count()},
            {"acquisitions", page_.acquisitions.load()},
            {"per_second", page_.acquisitions / std::max<long long>(length.count(), 1)},
            {"one_client", one_client_},
            {"overlaps", page_.overlaps.load()},
            {"falls", page_.falls.load()},
            {"late_losses", page_.late.load()},
            {"losses", page_.losses.load()},
            {"losses_of_clients_that_were_not_stopped", page_.unprovoked.load()},
            {"in", lost},
            {"longest_without_a_grant_ms", page_.longest_without / 1'000'000},
            {"clients_killed", killed_},
            {"clients_stopped", stopped_},
            {"errors", page_.errors.load()},
            {"faults", faults}};
  }

 private:
  static void pause(std::chrono::milliseconds d) { std::this_thread::sleep_for(d); }  // between two faults

  pid_t start(int i) {
    auto const pid = ::fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid > 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGINT, SIG_DFL);
    try {
      client{page_, i, urls_}.work();
    } catch (std::exception const& e) {
      std::cerr << "a client ended: " << e.what() << '\n';
    }
    std::cerr.flush();
    ::_exit(0);
  }

  void kill_client(std::size_t i) {
    auto& s = page_.seats[i];
    ::kill(pids_[i], SIGKILL);
    ::waitpid(pids_[i], nullptr, 0);
    s.inside = false;
    pids_[i] = start(static_cast<int>(i));
    ++killed_;
  }

  void disturb_clients() {
    kill_client(random_() % pids_.size());
    auto const i = random_() % pids_.size();
    page_.seats[i].stopped_at = std::numeric_limits<std::int64_t>::max();
    ::kill(pids_[i], SIGSTOP);
    pause(ttl + ttl / 2);
    ::kill(pids_[i], SIGCONT);
    page_.seats[i].stopped_at = now_ns();
    ++stopped_;
  }

  /// What one client makes of takes and releases at one member alone.
  /// What one client alone pays, in microseconds: medians. The quorum and each member's leases by turns.
  void measure_one_client() {
    std::vector<cost> all(urls_.size() + 1);
    with_quorum([&](rowlock::quorum& q) {
      std::vector<std::unique_ptr<rowlock::lock_manager>> managers;
      for (auto const& url : urls_) managers.push_back(std::make_unique<rowlock::lock_manager>(url));
      rowlock::mutex_options how;
      how.ttl = ttl;
      auto majority = q.make_mutex("x", how);
      for (int round = 0; round < 10; ++round) {
        for (std::size_t i = 0; i < managers.size(); ++i) {
          auto lease = managers[i]->make_mutex("lease", how);
          all[i].measure([&] { return lease.acquire(); });
        }
        all.back().measure([&] { return majority.acquire(); });
      }
    });
    std::vector<double> takes;
    for (std::size_t i = 0; i < urls_.size(); ++i) {
      auto const kind = urls_[i].starts_with("host=") ? "postgresql" : urls_[i].substr(0, urls_[i].find(':'));
      one_client_["lease " + kind] = all[i].told();
      takes.push_back(cost::median(all[i].take));
    }
    one_client_["quorum"] = all.back().told();
    // The slowest of the fastest majority.
    std::nth_element(takes.begin(), takes.begin() + 1, takes.end());
    one_client_["take / lease of the slowest that is needed"] = cost::median(all.back().take) / takes[1];
  }
  struct cost {
    std::vector<double> take, release;
    static double median(std::vector<double> all) {
      auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
      std::nth_element(all.begin(), middle, all.end());
      return *middle;
    }
    template <class Acquire>
    void measure(Acquire const& acquire) {
      using us = std::chrono::duration<double, std::micro>;
      for (auto const end = boot_clock::now() + 200ms; boot_clock::now() < end;) {
        auto const began = boot_clock::now();
        auto got = acquire();
        auto const had = boot_clock::now();
        (void)got->release();
        take.push_back(us(had - began).count());
        release.push_back(us(boot_clock::now() - had).count());
      }
    }
    nlohmann::ordered_json told() const {
      return {{"take_us", median(take)}, {"release_us", median(release)}};
    }
  };

  void restart(database_server& s) {
    s.kill();
    pause(ttl);
    s.restart();
    pause(500ms);
  }
  void stop(database_server& s) {
    s.pause();
    pause(2 * ttl);
    s.resume();
    pause(1s);
  }
  void move(database_server& s, std::chrono::seconds offset) {
    s.set_clock(offset);
    pause(2 * ttl);
    s.set_clock(0s);
    pause(ttl);
  }
  /// All its sessions, again and again.
  void cut_off(std::size_t i) {
    auto const end = boot_clock::now() + ttl;
    while (boot_clock::now() < end) {
      try {
        if (i == 0)
          sql(i,
              "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
              "AND "
              "backend_type = 'client backend'");
        else
          for (auto const id :
               numbers(i,
                       "SELECT id FROM information_schema.processlist WHERE id <> connection_id() "
                       "AND command <> 'Daemon'"))
            sql(i, fmt::format("KILL {}", id));
      } catch (rowlock::error const&) {  // it ended by itself
      }
      pause(20ms);
    }
  }
  /// As if its disk was lost: made anew, with another id. Clients that know it by the former one go on
  /// without it, and are started again.
  void wipe(std::size_t i) {
    rowlock::migrator m(rowlock::source_from_url(urls_[i]));
    for (int tries = 0;; ++tries) try {
        m.down(0, true, true);
        break;
      } catch (rowlock::error const&) {
        if (tries == 20) throw;
      }
    migrate(i);
    pause(500ms);
    with_quorum([&](rowlock::quorum& q) { q.join(i); });
    for (std::size_t c = 0; c < pids_.size(); ++c) {
      kill_client(c);
      pause(100ms);
    }
    pause(ttl + ttl / 2);  // what the last of them has held
  }

  void migrate(std::size_t i) {
    auto const source = rowlock::source_from_url(urls_[i]);
    source.implementation()->create_if_missing();
    rowlock::migrator(source).up();
  }
  void with_quorum(std::function<void(rowlock::quorum&)> const& what) {
    std::vector<std::unique_ptr<rowlock::lock_manager>> managers;
    std::vector<rowlock::lock_manager*> each;
    for (auto const& url : urls_) {
      managers.push_back(std::make_unique<rowlock::lock_manager>(url));
      each.push_back(managers.back().get());
    }
    rowlock::quorum q(each);
    what(q);
  }
  rowlock::backend::result ask(std::size_t i, std::string const& text) {
    auto const c = rowlock::source_from_url(urls_[i]).implementation()->connect(boot_clock::now() + 5s);
    return c->execute({"ask", text}, {}, boot_clock::now() + 5s);
  }
  void sql(std::size_t i, std::string const& text) { (void)ask(i, text); }
  std::vector<std::int64_t> numbers(std::size_t i, std::string const& text) {
    std::vector<std::int64_t> all;
    for (auto const& row : ask(i, text).rows) all.push_back(rowlock::backend::as_int(row.at(0)));
    return all;
  }

  shared_page& page_;
  rowlock::test::scratch_folder folder_;
  database_server postgresql_;
  database_server mariadb_;
  std::vector<std::string> urls_;
  nlohmann::ordered_json one_client_;
  std::vector<pid_t> pids_;
  std::map<std::string, int> done_;
  std::map<std::string, long long> lost_in_;
  std::mt19937 random_{std::random_device{}()};
  int killed_ = 0;
  int stopped_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  auto const length = std::chrono::seconds(argc > 1 ? std::atoi(argv[1]) : 60);
  int const clients = std::clamp(argc > 2 ? std::atoi(argv[2]) : 10, 1, most);
  bool const faults = argc <= 3 || std::string(argv[3]) != "calm";
  void* const memory =
      ::mmap(nullptr, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto& page = *new (memory) shared_page;
  page.calm = !faults;
  conductor c(page, clients, argc > 4 && std::string(argv[4]) == "sqlite-first");
  c.run(length, faults, faults && argc > 4 ? argv[4] : "");
  auto const out = c.finish(length);
  std::cout << out.dump(2) << '\n';
  bool const good = page.overlaps == 0 && page.falls == 0 && page.late == 0;
  return good ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 2;
}
