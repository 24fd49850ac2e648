#include "demo/nemesis.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <random>
#include <stdexcept>

#include "demo/counters.hpp"

namespace rowlock::demo {
namespace {

class nemesis {
 public:
  explicit nemesis(phase_options const& o)
      : options_(o),
        ttl_(milliseconds(o.ttl.count())),
        workers_(static_cast<std::size_t>(o.workers)),
        next_pause_(static_cast<std::size_t>(o.counters)) {}

  ~nemesis() {
    for (auto const& w : workers_) {
      if (w.pid <= 0) continue;
      ::kill(w.pid, SIGKILL);
      ::waitpid(w.pid, nullptr, 0);
    }
    if (pipe_ >= 0) ::close(pipe_);
  }
  nemesis(nemesis const&) = delete;
  nemesis& operator=(nemesis const&) = delete;

  outcome run() {
    auto const own = connect(options_.url);
    own->make(options_.counters);
    start();
    end_ = now() + milliseconds(options_.duration.count());
    while (now() < end_) {
      wait();
      listen();
      resume_who_is_due(false);
      stop_somebody();
    }
    resume_who_is_due(true);
    finish();
    outcome_.found = own->sum();
    std::ranges::stable_sort(outcome_.log, {}, &event::at);
    return std::move(outcome_);
  }

 private:
  struct worker {
    pid_t pid = -1;
    happening last = happening::released;
    std::int64_t stopped_at = 0;  ///< 0: it runs
    std::int64_t resume_after = 0;
    std::int64_t writes_meanwhile = 0;
  };

  int counter_of(std::size_t number) const { return static_cast<int>(number) % options_.counters; }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }

  /// The same program again, because threads do not survive a fork.
  void start() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    pipe_ = ends[0];
    ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      std::string words[] = {"rowlock_demo_pause",    "--worker",
                             std::to_string(i),       std::to_string(counter_of(i)),
                             to_string(options_.how), std::to_string(options_.ttl.count()),
                             options_.redis_socket,   options_.url};
      std::vector<char*> arguments;
      for (auto& w : words) arguments.push_back(w.data());
      arguments.push_back(nullptr);
      if (::posix_spawn(&workers_[i].pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ) !=
          0)
        throw std::runtime_error("cannot start a worker");
    }
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
  }

  /// Until somebody says something, or somebody is to go on.
  void wait() {
    auto until = end_;
    for (auto const& w : workers_)
      if (w.stopped_at != 0) until = std::min(until, w.stopped_at + w.resume_after);
    for (auto const next : next_pause_)
      if (next > now()) until = std::min(until, next);
    // Whoever is due and has not been resumed waits for others to write, who say so.
    auto const left = std::max<std::int64_t>((until - now()) / 1'000'000 + 1, 1);
    pollfd ready{pipe_, POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
  }

  /// @return false at the end of the last worker
  bool listen() {
    event some[64];
    for (;;) {
      auto const n = ::read(pipe_, some, sizeof some);
      if (n == 0) return false;
      if (n < 0) return true;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n) / sizeof(event); ++i) note(some[i]);
    }
  }

  void note(event const& e) {
    outcome_.log.push_back(e);
    auto const who = static_cast<std::size_t>(e.worker);
    workers_[who].last = e.what;
    if (e.what == happening::acknowledged) {
      ++outcome_.acknowledged;
      for (std::size_t i = 0; i < workers_.size(); ++i)
        if (i != who && counter_of(i) == counter_of(who)) ++workers_[i].writes_meanwhile;
    }
    if (e.what == happening::refused) ++outcome_.refused;
    if (e.what == happening::in_doubt) ++outcome_.in_doubt;
  }

  void stop_somebody() {
    if (now() + 2 * ttl_ > end_) return;  // who is stopped then would not be resumed in time
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      auto& w = workers_[i];
      auto& next = next_pause_[static_cast<std::size_t>(counter_of(i))];
      if (w.stopped_at != 0 || w.last != wanted_ || next == never || now() < next) continue;
      ::kill(w.pid, SIGSTOP);
      int status = 0;
      ::waitpid(w.pid, &status, WUNTRACED);
      if (!WIFSTOPPED(status)) {
        w.pid = -1;
        throw std::runtime_error("a worker has ended");
      }
      auto const at = now();
      listen();
      if (w.last != wanted_) {  // it was quicker: it has written meanwhile, or is about to
        ::kill(w.pid, SIGCONT);
        continue;
      }
      w.stopped_at = at;
      w.resume_after = between(ttl_ * 3 / 2, ttl_ * 2);
      w.writes_meanwhile = 0;
      next = never;
      ++outcome_.pauses;
      outcome_.in_transaction += wanted_ != happening::read;
      outcome_.log.push_back({at, static_cast<int>(i), happening::stopped, 0});
      wanted_ = choose_place();
    }
  }

  /// Mostly while it thinks, sometimes in its transaction: there a takeover waits, or require() sees it.
  happening choose_place() {
    auto const die = options_.how == mode::require ? between(1, 6) : 1;
    return die == 6 ? happening::required : die == 5 ? happening::begun : happening::read;
  }

  /// After its time; whoever was stopped amid thinking also not before another has written, unless that takes
  /// too long: the keeper's thread may have been stopped as well, with a lock of the database's in its hand.
  void resume_who_is_due(bool all) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      auto& w = workers_[i];
      if (w.stopped_at == 0) continue;
      auto const time = now();
      bool const long_enough =
          time >= w.stopped_at + w.resume_after &&
          (w.last != happening::read || w.writes_meanwhile > 0 || time >= w.stopped_at + 5 * ttl_);
      if (!all && !long_enough) continue;
      outcome_.log.push_back({time, static_cast<int>(i), happening::resumed, 0});
      ::kill(w.pid, SIGCONT);
      w.stopped_at = 0;
      next_pause_[static_cast<std::size_t>(counter_of(i))] = time + between(ttl_ / 3, 2 * ttl_);
    }
  }

  void finish() {
    for (auto const& w : workers_) ::kill(w.pid, SIGTERM);
    auto const patience = now() + milliseconds(30'000);
    while (listen()) {
      if (now() > patience) throw std::runtime_error("a worker does not end");
      pollfd ready{pipe_, POLLIN, 0};
      ::poll(&ready, 1, 1000);
    }
    bool good = true;
    for (auto& w : workers_) {
      int status = 0;
      ::waitpid(w.pid, &status, 0);
      w.pid = -1;
      good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    if (!good) throw std::runtime_error("a worker ended with an error");
  }

  static constexpr std::int64_t never = INT64_MAX;

  phase_options options_;
  std::int64_t ttl_;
  std::int64_t end_ = 0;
  int pipe_ = -1;
  std::vector<worker> workers_;
  std::vector<std::int64_t> next_pause_;  ///< by counter
  happening wanted_ = happening::read;    ///< after which the next pause is to fall
  outcome outcome_;
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace

outcome run_phase(phase_options const& o) { return nemesis(o).run(); }

}  // namespace rowlock::demo
