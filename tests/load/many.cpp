// Very many locks held by one process for a long time; then, if a command is given, that is run (one that
// restarts the server, say), and they are held on for two more ttls. Not one of the tests: prints a line of
// JSON each minute, and a last one.
//
//   rowlock_many URL LOCKS SECONDS [COMMAND]     (the tables are made; strategy lease, ttl 30 s)
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <rowlock/rowlock.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend/backend.hpp"

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

constexpr std::chrono::milliseconds ttl = 30s;

/// What the server has been asked to do so far, by all its clients.
class server_counter {
 public:
  explicit server_counter(rowlock::connection_source const& source)
      : connection_(source.implementation()->connect(soon())) {
    auto const dialect = source.implementation()->sql().name;
    if (dialect == "postgresql")
      sql_ = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
    else if (dialect == "mysql")
      sql_ = "SHOW GLOBAL STATUS LIKE 'Questions'";
  }
  long long statements() {
    if (sql_.empty()) return 0;
    auto const found = connection_->execute({"count", sql_}, {}, soon());
    auto const& last = found.rows.at(0).back();
    return std::holds_alternative<std::string>(last) ? std::stoll(std::get<std::string>(last))
                                                     : rowlock::backend::as_int(last);
  }

 private:
  static rowlock::boot_time_point soon() { return rowlock::boot_clock::now() + 10s; }
  std::unique_ptr<rowlock::backend::connection> connection_;
  std::string sql_;
};

double resident_mib() {
  long total = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

double processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

double seconds_since(clock::time_point when) {
  return std::chrono::duration<double>(clock::now() - when).count();
}

struct told {
  std::atomic<long long> renewed = 0;
  std::atomic<long long> lost = 0;
  std::atomic<long long> errors = 0;
};

/// The shortest time for which any of them is still trusted.
double least_trust(std::vector<rowlock::acquisition> const& locks) {
  auto least = rowlock::boot_time_point::max();
  for (auto const& l : locks)
    least = std::min(least, l->trusted_until().value_or(rowlock::boot_time_point::min()));
  return std::chrono::duration<double>(least - rowlock::boot_clock::now()).count();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4 || argc > 5 || std::atoi(argv[2]) < 1 || std::atoi(argv[3]) < 1) {
    std::cerr << "usage: rowlock_many URL LOCKS SECONDS [COMMAND]\n";
    return 64;
  }
  std::string const url = argv[1];
  auto const count = std::atoi(argv[2]);
  auto const seconds = std::chrono::seconds(std::atoi(argv[3]));
  auto const source = rowlock::source_from_url(url);
  rowlock::migrator(source).up();

  told seen;
  rowlock::manager_options options;
  options.on_event = [&](rowlock::event const& e) {
    if (e.kind == rowlock::event_kind::renewed) ++seen.renewed;
    if (e.kind == rowlock::event_kind::lost) ++seen.lost;
    if (e.kind == rowlock::event_kind::error) ++seen.errors;
  };
  rowlock::lock_manager manager(source, options);
  auto const before = resident_mib();
  auto const began = clock::now();
  std::vector<rowlock::acquisition> locks;
  for (int i = 0; i < count; ++i)
    locks.push_back(manager.make_mutex(fmt::format("many/{}", i), {.ttl = ttl}).acquire());
  auto const all_valid = [&] {
    return std::count_if(locks.begin(), locks.end(), [](auto const& l) { return l->valid(); });
  };
  std::cout << json{{"locks", count},
                    {"taken_in_s", seconds_since(began)},
                    {"mib_before", before},
                    {"mib", resident_mib()}}
                   .dump()
            << std::endl;

  // The counter's own session ends before the server is restarted.
  auto hold_for = [&](std::chrono::seconds how_long) {
    server_counter server(source);
    auto const end = clock::now() + how_long;
    while (clock::now() < end) {
      auto const since = clock::now();
      auto const statements = server.statements();
      auto const renewed = seen.renewed.load();
      auto const busy = processor_seconds();
      std::this_thread::sleep_until(std::min(end, since + 60s));  // what is measured
      std::cout << json{{"seconds", seconds_since(since)},
                        {"statements", server.statements() - statements - 1},  // but for our own question
                        {"renewals", seen.renewed - renewed},
                        {"processor_s", processor_seconds() - busy},
                        {"mib", resident_mib()},
                        {"valid", all_valid()},
                        {"least_trust_s", least_trust(locks)},
                        {"lost", seen.lost.load()},
                        {"errors", seen.errors.load()}}
                       .dump()
                << std::endl;
    }
  };
  hold_for(seconds);
  if (argc > 4) {
    auto const asked = clock::now();
    if (std::system(argv[4]) != 0) std::cerr << "the command failed\n";
    std::cout << json{{"command_took_s", seconds_since(asked)}}.dump() << std::endl;
    hold_for(std::chrono::duration_cast<std::chrono::seconds>(2 * ttl));
  }

  auto const valid = all_valid();
  auto const giving_back = clock::now();
  std::map<std::string, int> came_back;
  for (auto& l : locks) ++came_back[to_string(l->release())];
  bool const good = valid == count && seen.lost == 0 && came_back["released"] == count;
  std::cout << json{{"valid", valid},
                    {"came_back", came_back},
                    {"released_in_s", seconds_since(giving_back)},
                    {"verdict", good ? "good" : "BAD"}}
                   .dump()
            << std::endl;
  return good ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
