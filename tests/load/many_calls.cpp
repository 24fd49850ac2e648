// Very many asynchronous calls of one process, on names that another process holds: what they cost while
// nothing is released, how soon all are granted then, and how soon all are cancelled. Not one of the tests:
// prints a line of JSON.
//
//   rowlock_many_calls URL CALLS NAMES SECONDS [SERVER_PID]     (the tables are made; strategy lease)
//
// SERVER_PID: the server's main process. Its processor time, and that of its children, counts.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using json = nlohmann::ordered_json;

constexpr std::size_t at_once = 50;

std::string name(std::size_t n) { return fmt::format("many_calls-{:06}", n); }

double seconds_since(clock::time_point when) {
  return std::chrono::duration<double>(clock::now() - when).count();
}

long resident_bytes() {
  long total = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

long threads() { return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}); }

/// Of the process in seconds, with its threads; 0 if it has ended. `parent`: the pid of its parent.
double processor_seconds(long pid, long& parent) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string const all(std::istreambuf_iterator<char>(file), {});
  auto const after = all.rfind(')');
  if (after == std::string::npos) return 0;
  std::istringstream rest(all.substr(after + 2));
  std::vector<std::string> fields;
  for (std::string one; rest >> one;) fields.push_back(one);
  parent = std::stol(fields.at(1));
  return static_cast<double>(std::stol(fields.at(11)) + std::stol(fields.at(12))) /
         static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double own_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

double server_seconds(std::optional<long> server) {
  double sum = 0;
  if (!server) return sum;
  for (auto const& one : std::filesystem::directory_iterator("/proc")) {
    auto const pid = std::atol(one.path().filename().c_str());
    long parent = 0;
    auto const used = pid > 0 ? processor_seconds(pid, parent) : 0;
    if (pid == *server || (pid > 0 && parent == *server)) sum += used;
  }
  return sum;
}

/// The other process: holds all names until its input ends, then releases them.
int hold(std::string const& url, std::size_t names, int tell, int until) {
  rowlock::lock_manager m(rowlock::source_from_url(url));
  rowlock::mutex_options o;
  o.ttl = 600s;
  std::vector<rowlock::held_locks> all;
  for (std::size_t begin = 0; begin < names; begin += at_once) {
    std::vector<std::string> some;
    for (auto n = begin; n < std::min(names, begin + at_once); ++n) some.push_back(name(n));
    auto got = m.acquire_all(std::move(some), o);
    if (!got) return 1;
    all.push_back(std::move(*got));
  }
  char go = 'h';
  if (::write(tell, &go, 1) != 1) return 1;
  if (::read(until, &go, 1) < 0) return 1;
  for (auto& some : all) (void)some.release();
  return 0;
}

/// All calls of one phase.
class calls {
 public:
  calls(rowlock::lock_manager& m, std::size_t count, std::size_t names) : order_(names), count_(count) {
    rowlock::mutex_options o;
    o.ttl = 600s;
    for (std::size_t n = 0; n < std::min(count, names); ++n) mutexes_.push_back(m.make_mutex(name(n), o));
    for (std::size_t i = 0; i < count; ++i) {
      auto const of = i % mutexes_.size();
      mutexes_[of].async_acquire(
          rowlock::on_library_thread,
          [this, i, of](std::exception_ptr const& e, rowlock::acquisition a) {
            came(i, of, e, std::move(a));
          },
          stop_.get_token());
    }
  }
  /// @return whether all have ended within the time
  bool all_ended(std::chrono::seconds within) {
    std::unique_lock lock(mutex_);
    return come_.wait_for(lock, within, [this] { return ended_ == count_; });
  }
  void cancel() { stop_.request_stop(); }
  std::size_t granted() const { return granted_; }
  bool in_order() const {
    return std::all_of(order_.begin(), order_.end(),
                       [](auto const& of) { return std::is_sorted(of.begin(), of.end()); });
  }

 private:
  void came(std::size_t i, std::size_t of, std::exception_ptr const& e, rowlock::acquisition a) {
    std::lock_guard const guard(mutex_);
    if (!e && a) {
      ++granted_;
      order_[of].push_back(i);
      a->release_later();
    }
    ++ended_;
    come_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable come_;
  std::vector<rowlock::mutex> mutexes_;
  std::vector<std::vector<std::size_t>> order_;
  std::stop_source stop_;
  std::size_t const count_;
  std::size_t ended_ = 0;
  std::size_t granted_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5 || argc > 6) {
    std::cerr << "usage: rowlock_many_calls URL CALLS NAMES SECONDS [SERVER_PID]\n";
    return 2;
  }
  std::string const url = argv[1];
  std::size_t const count = std::stoul(argv[2]);
  std::size_t const names = std::stoul(argv[3]);
  std::chrono::seconds const idle(std::stol(argv[4]));
  std::optional<long> server;
  if (argc == 6) server = std::stol(argv[5]);

  int held[2];
  int release[2];
  if (::pipe(held) != 0 || ::pipe(release) != 0) return 1;
  auto const holder = ::fork();  // before any thread
  if (holder == 0) {
    ::close(release[1]);
    rowlock::migrator(rowlock::source_from_url(url)).up();
    return hold(url, names, held[1], release[0]);
  }
  ::close(held[1]);
  char ready = 0;
  if (::read(held[0], &ready, 1) != 1) throw std::runtime_error("the other process could not take all names");

  json result{{"calls", count}, {"names", names}};
  rowlock::lock_manager m(rowlock::source_from_url(url));
  {
    calls first(m, names, names);  // the threads and sessions are there
    std::this_thread::sleep_for(2s);
    auto const began = clock::now();
    first.cancel();
    if (!first.all_ended(60s)) throw std::runtime_error("calls are not cancelled");
    result["cancelled_first"] = seconds_since(began);
  }
  {
    auto const before = resident_bytes();
    calls all(m, count, names);
    std::this_thread::sleep_for(3s);
    result["bytes_per_call"] = (resident_bytes() - before) / static_cast<long>(count);
    auto const own = own_seconds();
    auto const of_server = server_seconds(server);
    auto const began = clock::now();
    std::this_thread::sleep_for(idle);
    auto const time = seconds_since(began);
    result["client_percent"] = 100 * (own_seconds() - own) / time;
    result["server_percent"] = 100 * (server_seconds(server) - of_server) / time;
    result["threads"] = threads() - 1;
    auto const cancelled = clock::now();
    all.cancel();
    if (!all.all_ended(300s)) throw std::runtime_error("calls are not cancelled");
    result["cancelled_after"] = seconds_since(cancelled);
  }
  {
    calls all(m, count, names);
    std::this_thread::sleep_for(3s);
    auto const released = clock::now();
    ::close(release[1]);
    bool const ended = all.all_ended(300s);
    result["granted_after"] = seconds_since(released);
    result["granted"] = all.granted();
    result["in_order"] = all.in_order();
    std::cout << result.dump() << std::endl;
    if (!ended) std::_Exit(1);
  }
  int status = 0;
  ::waitpid(holder, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
} catch (std::exception const& e) {
  std::cerr << "rowlock_many_calls: " << e.what() << '\n';
  return 1;
}
