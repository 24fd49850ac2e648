// A program that takes locks and ends as it is told to:
// rowlock_ending URL SCHEMA STRATEGY PLACE END MS
// PLACE, of the manager, the mutexes and the handles: static, thread, heap, stack.
// END: return, exit, exit-in-thread, exit-in-handler, exit-in-callback, exit-in-hook, exit-in-policy,
// exception. MS: release_timeout.
// It says "ready" once it holds what it wants and others wait, "lost" when it is told that a lock is lost,
// and what each waiter got; it ends when it reads a line. Asynchronous calls of each kind wait, too. It says
// "too late" if one of them is posted, called or destroyed inside exit().
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <rowlock/rowlock.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <latch>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace rowlock;
using namespace std::chrono_literals;

namespace {

constexpr int status = 7;

std::string url, schema, how, place, ending, release_ms;
std::atomic<bool> told_to_end{false};
std::atomic<bool> main_waits{false};

// One write, whatever other threads and static destructors do.
void say(std::string text) {
  text += '\n';
  (void)!::write(STDOUT_FILENO, text.data(), text.size());
}

[[noreturn]] void stay() {
  for (;;) ::pause();
}

/// Whether the program is in exit(). What is destroyed there before the library can know that is a manager of
/// the main thread's: its end completes calls as always.
std::atomic<bool> exits{false};

[[noreturn]] void end_now() {
  exits = place != "thread";
  std::exit(status);
}

// A hook is called by several threads.
void end_once() {
  static std::atomic<bool> ends{false};
  if (!ends.exchange(true)) end_now();
}

manager_options options() {
  manager_options o;
  o.schema = schema;
  o.strategy = *strategy_from_string(how);
  o.reply_timeout = 3s;
  o.release_timeout = std::chrono::milliseconds(std::stol(release_ms));
  o.on_event = [](event const& e) {
    if ((e.kind == event_kind::renewed || e.kind == event_kind::error) && ending == "exit-in-hook" &&
        told_to_end)
      end_once();
  };
  return o;
}

struct made_manager : lock_manager {
  made_manager() : lock_manager(url, options()) {}
};

class handler {
 public:
  explicit handler(char const* what) : what_(what) {}
  handler(handler&& other) noexcept : what_(std::exchange(other.what_, nullptr)) {}
  handler& operator=(handler&&) = delete;
  ~handler() {
    if (what_ != nullptr && exits) say(std::string("too late: destroyed: ") + what_);
  }
  template <class Result>
  void operator()(std::exception_ptr const&, Result const& came) {
    if (exits) say(std::string("too late: called: ") + what_);
    if constexpr (std::is_constructible_v<bool, Result const&>)
      if (came) say(std::string(what_) + ": yes");
  }

 private:
  char const* what_;
};

// Where things are: what is made once, in each of the places.
template <class T, class... Arguments>
T& make(std::optional<T>& on_stack, Arguments&&... arguments) {
  if (place == "static") {
    static T one{std::forward<Arguments>(arguments)...};
    return one;
  }
  if (place == "thread") {
    thread_local T one{std::forward<Arguments>(arguments)...};
    return one;
  }
  if (place == "heap") return *new T{std::forward<Arguments>(arguments)...};
  return on_stack.emplace(std::forward<Arguments>(arguments)...);
}

struct held_mutex : mutex {
  held_mutex(lock_manager& m, std::latch& waits) : mutex(m.make_mutex("held", waiting(waits))) {}
  // Both that stand in line have to be inside their calls: a mutex that is destroyed before may not be used.
  static mutex_options waiting(std::latch& waits) {
    mutex_options o;
    o.ttl = 60s;
    if (how == "row_lock") {
      waits.count_down(2);
      return o;
    }
    o.retry.policy = [&waits, left = std::make_shared<std::atomic<int>>(2)](int, holder_info const*) {
      if (left->fetch_sub(1) > 0) waits.count_down();
      return std::optional<std::chrono::milliseconds>(1h);
    };
    return o;
  }
};
struct quick_mutex : mutex {
  explicit quick_mutex(lock_manager& m) : mutex(m.make_mutex("lost", quick())) {}
  static mutex_options quick() {
    mutex_options o;
    o.ttl = 2700ms;  // it is not to be lost before all is ready
    return o;
  }
};
struct foreign_mutex : mutex {
  foreign_mutex(lock_manager& m, std::latch& waits) : mutex(m.make_mutex("foreign", waiting(waits))) {}
  static mutex_options waiting(std::latch& waits) {
    mutex_options o;
    if (how == "row_lock") {
      waits.count_down();
      return o;
    }
    o.retry.policy = [&waits, first = true](int, holder_info const*) mutable {
      if (std::exchange(first, false)) waits.count_down();
      if (::gettid() == ::getpid()) main_waits = true;
      if (ending == "exit-in-policy" && told_to_end) end_now();
      return std::optional<std::chrono::milliseconds>(ending == "exit-in-handler" ? 1h : 10ms);
    };
    return o;
  }
};
struct lock_of : std::optional<held_lock> {
  // By a thread of its own: the one that ends the process may never have used the driver.
  explicit lock_of(mutex& m) {
    std::jthread([&] { emplace(*m.acquire()); }).join();
  }
};

void on_handler(int) { end_now(); }

// Amid a wait of the main thread's, which the handler interrupts: it has nothing in its hands then.
void until_main_sleeps() {
  auto const asleep = [] {
    std::ifstream stat("/proc/self/stat");
    std::string pid, program, state;
    stat >> pid >> program >> state;
    return state == "S";
  };
  while (!main_waits || !asleep()) std::this_thread::yield();
}

void wait_for(mutex& m, char const* who) {
  std::thread([&m, who] { say(std::string(who) + ' ' + to_string(m.acquire().status())); }).detach();
}

void wait_by_lock(mutex& m) {
  std::thread([&m] {
    m.lock();
    say("locker acquired");
  }).detach();
}

/// Calls that wait until the end: on a loop that nobody runs any more, and on the library's thread.
class asynchronous_calls {
 public:
  explicit asynchronous_calls(lock_manager& m)
      : foreign_(m.make_mutex("foreign")),
        held_(m.make_mutex("held")),
        leads_(m, "foreign", {}),
        follows_(m, "foreign", {}) {}
  void begin(lock_manager& m, held_lock const& held) {
    begin(m, held, leads_, executor([this](posted p) {
            if (exits) say("too late: posted");
            std::lock_guard const guard(mutex_);
            posted_.push_back(std::move(p));
          }));
    begin(m, held, follows_, on_library_thread);
  }

 private:
  void begin(lock_manager& m, held_lock const& held, election& candidate, executor const& where) {
    std::vector<std::string> const both{"all", "foreign"};
    mutex_options const options;
    foreign_.async_acquire(where, handler("at the database acquired later"));
    held_.async_acquire(where, handler("in line later"));
    foreign_.async_wait_until_free_for(1h, where, handler("at the database acquired: free"));
    if (how == "lease") {
      m.async_acquire_all(both, options, where, handler("at the database acquired: all"));
      candidate.async_campaign(where, handler("at the database acquired: elected"));
    }
    held.async_lost(where, handler("lost later"));
  }
  std::mutex mutex_;
  std::deque<posted> posted_;
  mutex foreign_, held_;
  election leads_, follows_;
};

int run() {
  std::optional<made_manager> manager_on_stack;
  std::optional<held_mutex> held_on_stack;
  std::optional<quick_mutex> quick_on_stack;
  std::optional<foreign_mutex> foreign_on_stack;
  std::optional<lock_of> lock_on_stack, lost_on_stack;
  auto& waits = *new std::latch(3);

  auto& manager = make(manager_on_stack);
  auto& held = make(held_on_stack, manager, waits);
  auto& quick = make(quick_on_stack, manager);
  auto& foreign = make(foreign_on_stack, manager, waits);
  auto& lock = make(lock_on_stack, held);
  auto& lost = make(lost_on_stack, quick);
  auto& on_loss = *new std::stop_callback(lost->loss_token(), std::function<void()>([] {
                                            say("lost");
                                            if (ending == "exit-in-callback") end_now();
                                          }));
  (void)on_loss;
  wait_for(held, "in line");
  wait_by_lock(held);
  wait_for(foreign, "at the database");
  waits.wait();
  auto& later = *new asynchronous_calls(manager);  // of a loop that has stopped
  later.begin(manager, *lock);
  if (!lock->valid()) return 70;
  say("ready");
  if (ending == "exit-in-callback") stay();
  std::string line;
  if (ending == "exit-in-handler") {
    ::signal(SIGUSR1, on_handler);
    std::thread([self = ::pthread_self()] {
      std::string any;
      std::getline(std::cin, any);
      until_main_sleeps();
      ::pthread_kill(self, SIGUSR1);
    }).detach();
    (void)foreign.acquire();
    stay();
  }
  std::getline(std::cin, line);
  told_to_end = true;
  if (ending == "exit") end_now();
  if (ending == "exit-in-thread") {
    std::thread(end_now).detach();
    stay();
  }
  if (ending == "exception") throw std::runtime_error("nobody catches this");
  if (ending != "return") stay();
  return status;
}

}  // namespace

// NOLINTBEGIN(bugprone-exception-escape): one of the ends
int main(int argc, char** argv) {
  std::string* const words[] = {&url, &schema, &how, &place, &ending, &release_ms};
  if (argc != 1 + static_cast<int>(std::size(words))) return 64;
  for (auto* const word : words) *word = *++argv;
  if (ending == "exception") {  // neither its text nor a core
    ::prctl(PR_SET_DUMPABLE, 0);
    (void)!std::freopen("/dev/null", "w", stderr);
  }
  int const ended = run();
  exits = place != "thread";
  return ended;
}
// NOLINTEND(bugprone-exception-escape)
