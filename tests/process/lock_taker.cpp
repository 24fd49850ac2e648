// A program that takes a lock when it is told to: rowlock_lock_taker [--own-pid-namespace] URL SCHEMA NAME
// TTL_MS [STRATEGY]
// Commands on standard input, a line each, answered by a line each: see the functions below. Without
// being asked it prints "lost REASON MILLISECONDS", the time being what is left of trust.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iostream>
#include <mutex>
#include <rowlock/rowlock.hpp>
#include <sstream>

#include "contract/statement_probe.hpp"

using namespace rowlock;
using namespace std::chrono_literals;

// ThreadSanitizer would end a forked child that starts a thread, as a session on MySQL does.
extern "C" char const* __tsan_default_options();
extern "C" char const* __tsan_default_options() { return "die_after_fork=0"; }

namespace {

std::mutex output;

void say(std::string const& line) {
  std::lock_guard const guard(output);
  std::cout << line << std::endl;
}

/// From here on this process is a child with pid 1, as in a container.
void enter_own_pid_namespace() {
  int const flags = ::geteuid() == 0 ? CLONE_NEWPID : CLONE_NEWUSER | CLONE_NEWPID;
  if (::unshare(flags) != 0) throw std::runtime_error("unshare failed");
  auto const child = ::fork();
  if (child == 0) return;
  int status = 0;
  ::waitpid(child, &status, 0);
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

class taker {
 public:
  taker(std::string url, std::string schema, std::string name, std::chrono::milliseconds ttl, strategy how)
      : url_(std::move(url)),
        options_(options(schema, how)),
        manager_(test::observed_by(source_from_url(url_), probe_), options_),
        mutex_(manager_.make_mutex(std::move(name), {.ttl = ttl})),
        fair_(manager_.make_mutex(mutex_.name(), {.ttl = ttl, .fair = true})) {}

  // "die before|after STATEMENT" -> "will"; by SIGKILL, when that is sent, or its reply has come
  std::string die(std::string const& when, std::string const& statement) {
    (when == "before" ? probe_->before : probe_->after) = [statement](std::string const& s) {
      if (s == statement) ::raise(SIGKILL);
    };
    return "will";
  }

  // "take MS": waits so long at most (0: one attempt) -> "taken TERM TOKEN HOST PID PROCESS", or why not;
  // "fair MS": stands in line first
  std::string take(long ms, bool fair) try {
    auto& m = fair ? fair_ : mutex_;
    auto got = ms == 0 ? m.try_acquire() : m.try_acquire_for(std::chrono::milliseconds(ms));
    if (!got) return to_string(got.status());
    lock_.emplace(*std::move(got));
    on_loss_.emplace(lock_->loss_token(), [this] {
      auto const now = boot_clock::now();
      auto const left =
          std::chrono::duration_cast<std::chrono::milliseconds>(lock_->trusted_until().value_or(now) - now);
      say(fmt::format("lost {} {}", to_string(*lock_->loss()), left.count()));
    });
    auto const& o = lock_->owner();
    return fmt::format("taken {} {} {} {} {}", lock_->term().value, lock_->token().value, o.host, o.pid,
                       o.process);
  } catch (error const& e) {
    return fmt::format("error {}", e.what());
  }

  // "connect" -> "connected"
  std::string connect() try {
    manager_.connect();
    return "connected";
  } catch (error const& e) {
    return fmt::format("error {}", e.what());
  }

  // "release" -> "released RESULT"
  std::string release() {
    on_loss_.reset();
    return fmt::format("released {}", to_string(lock_->release()));
  }

  // "look" -> "valid 0|1 LOSS|held"
  std::string look() const {
    return fmt::format("valid {} {}", int{lock_->valid()},
                       lock_->loss() ? to_string(*lock_->loss()) : "held");
  }

  // "add FILE TIMES": adds one to the number in the file so often, each time under the lock -> "added"
  std::string add(std::string const& file, int times) {
    for (int i = 0; i < times; ++i) {
      std::scoped_lock const guard(mutex_);
      long number = 0;
      std::ifstream(file) >> number;
      ::sched_yield();
      std::ofstream(file) << number + 1;
    }
    return "added";
  }

  // "rise STRATEGY FILE TIMES": as add, in turn for five names and files; each file has the last token, too,
  // which must be lower -> "risen"
  std::string rise(std::string const& how, std::string const& file, int times) {
    for (int i = 0; i < times; ++i) {
      auto const which = std::to_string(i % 5);
      auto const path = file + which;
      auto m = manager_.make_mutex(
          mutex_.name() + which,
          {.strategy = strategy_from_string(how),
           .ttl = std::chrono::seconds(30),
           .retry = {.first = std::chrono::milliseconds(1), .longest = std::chrono::milliseconds(20)}});
      auto lock = m.acquire();
      long number = 0;
      std::int64_t last = 0;
      std::ifstream(path) >> number >> last;
      auto const mine = lock->token().value;
      if (mine <= last) return fmt::format("token {} after {}", mine, last);
      ::sched_yield();
      std::ofstream(path) << number + 1 << ' ' << mine;
      // On a busy machine it may be left to the renewer, which gives it back as soon as it can.
      if (auto const r = lock->release(); r == release_result::already_lost)
        return fmt::format("round {}: {}", i, to_string(r));
    }
    return "risen";
  }

  // "reap" -> "reaping", and does so until it is killed
  void reap() {
    reaper_options o;
    o.schema = options_.schema;
    o.idle = std::chrono::milliseconds(0);
    o.batch = 3;
    o.wait = std::chrono::milliseconds(0);
    reaper r(source_from_url(url_), o);
    say("reaping");
    for (;;) r.run();
  }

  // "fork" -> what the child found: "child LOSS RELEASE REFUSAL OWN-ATTEMPT"
  std::string fork() {
    int ends[2];
    if (::pipe(ends) != 0) return "error pipe";
    auto const child = ::fork();
    if (child == 0) {
      auto const text = in_child();
      (void)!::write(ends[1], text.data(), text.size());
      ::_exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char buffer[512];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    return "child " + text + fmt::format(" status {}", status);
  }

 private:
  static manager_options options(std::string const& schema, strategy how) {
    manager_options o;
    o.schema = schema;
    o.strategy = how;
    return o;
  }

  std::string in_child() {
    std::string text = lock_->loss() ? to_string(*lock_->loss()) : "held";
    text += fmt::format(", {}", to_string(lock_->release()));
    mutex_.unlock();
    try {
      (void)mutex_.try_acquire();
      text += ", granted";
    } catch (error const& e) {
      text += fmt::format(", {}", e.reason() == errc::forked ? "refused" : e.what());
    }
    try {
      lock_manager own(url_, options_);
      text += fmt::format(", {}", to_string(own.make_mutex(mutex_.name()).try_acquire().status()));
    } catch (error const& e) {
      text += fmt::format(", {}", e.what());
    }
    return text;
  }

  std::string url_;
  manager_options options_;
  std::shared_ptr<test::statement_probe> probe_ = std::make_shared<test::statement_probe>();
  lock_manager manager_;
  mutex mutex_;
  mutex fair_;
  std::optional<held_lock> lock_;
  std::optional<std::stop_callback<std::function<void()>>> on_loss_;
};

}  // namespace

int main(int argc, char** argv) try {
  int next = 1;
  if (argc > 1 && std::string_view(argv[1]) == "--own-pid-namespace") {
    enter_own_pid_namespace();
    ++next;
  }
  if (argc - next != 4 && argc - next != 5) return 64;
  auto const asked = argc - next == 5 ? strategy_from_string(argv[next + 4]) : strategy::lease;
  if (!asked) return 64;
  taker t(argv[next], argv[next + 1], argv[next + 2], std::chrono::milliseconds(std::stol(argv[next + 3])),
          *asked);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "take" || verb == "fair") {
      long ms = 0;
      words >> ms;
      say(t.take(ms, verb == "fair"));
    } else if (verb == "die") {
      std::string when, statement;
      words >> when >> statement;
      say(t.die(when, statement));
    } else if (verb == "add") {
      std::string file;
      int times = 0;
      words >> file >> times;
      say(t.add(file, times));
    } else if (verb == "rise") {
      std::string how, file;
      int times = 0;
      words >> how >> file >> times;
      say(t.rise(how, file, times));
    } else if (verb == "reap") {
      t.reap();
    } else if (verb == "connect") {
      say(t.connect());
    } else if (verb == "release") {
      say(t.release());
    } else if (verb == "look") {
      say(t.look());
    } else if (verb == "fork") {
      say(t.fork());
    } else {
      say("error what is " + verb);
    }
  }
  return 0;
} catch (std::exception const& e) {
  say(std::string("error ") + e.what());
  return 70;
}
