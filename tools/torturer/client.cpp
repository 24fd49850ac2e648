#include "client.hpp"

#include <unistd.h>

#include <cerrno>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <rowlock/rowlock.hpp>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "history.hpp"
#include "ledger.hpp"

namespace rowlock::torture {
namespace {

using namespace std::chrono_literals;

/// A lock of any of the workloads, by one thread.
class taker {
 public:
  taker(lock_manager& m, options const& o, std::string const& name) : what_(o.what) {
    mutex_options how;
    how.strategy = is_mutex(what_) ? std::optional(o.how) : std::nullopt;
    how.ttl = o.ttl;
    how.fencing = is_mutex(what_) ? std::optional(true) : std::nullopt;
    how.retry = {.first = 1ms, .longest = 100ms};
    switch (what_) {
      case workload::shared:
        shared_.emplace(m.make_shared_mutex(name, how));
        break;
      case workload::semaphore:
        semaphore_.emplace(m.make_semaphore(name, limit_of(what_), how));
        break;
      default:
        mutex_.emplace(m.make_mutex(name, how));
    }
  }

  /// How many units a turn takes.
  std::int64_t draw_units(std::mt19937& random) const {
    switch (what_) {
      case workload::shared:
        return random() % 3 == 0 ? limit_of(what_) : 1;
      case workload::semaphore:
        return 1 + static_cast<std::int64_t>(random() % 3);
      default:
        return 1;
    }
  }

  acquisition take(std::int64_t units, std::chrono::milliseconds patience, std::stop_token stop) {
    switch (what_) {
      case workload::shared:
        return units == 1 ? shared_->try_acquire_shared_for(patience, std::move(stop))
                          : shared_->try_acquire_for(patience, std::move(stop));
      case workload::semaphore:
        return semaphore_->try_acquire_for(patience, units, std::move(stop));
      default:
        return mutex_->try_acquire_for(patience, std::move(stop));
    }
  }

 private:
  workload what_;
  std::optional<mutex> mutex_;
  std::optional<shared_mutex> shared_;
  std::optional<semaphore> semaphore_;
};

class worker {
 public:
  worker(lock_manager& m, options const& o, ledger& l, history_writer const& history, std::uint32_t seat,
         std::uint32_t life, std::uint32_t thread)
      : options_(o),
        history_(history),
        section_(l.open(o.db, m)),
        random_(o.seed + 1000 * seat + 100 * thread + 7919 * life) {
    now_.process = seat;
    now_.life = life;
    now_.thread = thread;
    for (int i = 0; i < o.names; ++i) takers_.emplace_back(m, o, "torture/" + std::to_string(i));
  }

  void work(std::stop_token const& stop) {
    while (!stop.stop_requested()) {
      now_.name = static_cast<std::uint32_t>(random_() % takers_.size());
      ++now_.turn;
      auto& t = takers_[now_.name];
      now_.units = t.draw_units(random_);
      write(happening::asks);
      try {
        auto got = t.take(now_.units, patience(), stop);
        if (got)
          hold(*got);
        else
          write(happening::got_none, to_string(got.status()));
      } catch (error const& e) {
        write(happening::failed, e.what());
        std::this_thread::sleep_for(10ms);  // a database that is away is not asked more often
      }
    }
  }

 private:
  std::chrono::milliseconds patience() {
    switch (random_() % 4) {
      case 0:
        return 0ms;
      case 1:
        return std::chrono::milliseconds(random_() % 100);
      default:
        return 60s;
    }
  }

  void hold(held_lock& lock) {
    record r = now_;
    r.trusted_until = lock.trusted_until() ? lock.trusted_until()->time_since_epoch().count() : 0;
    r.token = lock.token().value;
    r.set_term(lock.term().value);
    r.what = happening::got;
    history_.write(r);
    {
      std::stop_callback const told(lock.loss_token(), [&, lost = now_]() mutable {
        lost.what = happening::lost;
        if (auto const why = lock.loss()) lost.set_text(to_string(*why));
        history_.write(lost);
      });
      section_->run(lock, now_.name, [&] {
        // Now and then longer than the lock lasts without a renewal.
        auto const end =
            boot_clock::now() + (random_() % 500 == 0 ? options_.ttl + options_.ttl / 2
                                                      : std::chrono::milliseconds(random_() % 4));
        while (boot_clock::now() < end && lock.valid()) std::this_thread::sleep_for(1ms);
      });
    }
    write(happening::gives_back);
    auto const result = lock.release();
    write(happening::gave_back, to_string(result));
  }

  void write(happening what, std::string_view text = {}) {
    record r = now_;
    r.what = what;
    r.set_text(text);
    history_.write(r);
  }

  options const& options_;
  history_writer const& history_;
  std::unique_ptr<section> section_;
  std::mt19937 random_;
  record now_;
  std::vector<taker> takers_;
};

void work(options const& o, ledger& l, std::filesystem::path const& folder, std::uint32_t seat,
          std::uint32_t life, int line) {
  history_writer const history(folder / (std::to_string(seat) + "." + std::to_string(life) + ".history"));
  manager_options mo;
  mo.table_prefix = "torture_";
  mo.reply_timeout = o.ttl;
  // By the term: a renewal may be told when its thread has gone on to the next lock.
  mo.on_event = [&](event const& e) {
    if (e.kind != event_kind::renewed || !e.trusted_until) return;
    record r;
    r.process = seat;
    r.life = life;
    r.what = happening::trusts;
    r.trusted_until = e.trusted_until->time_since_epoch().count();
    r.set_term(e.term);
    history.write(r);
  };
  lock_manager manager(o.connect(o.db), mo);
  std::vector<std::unique_ptr<worker>> workers;
  workers.reserve(static_cast<std::size_t>(o.threads));
  for (int i = 0; i < o.threads; ++i)
    workers.push_back(
        std::make_unique<worker>(manager, o, l, history, seat, life, static_cast<std::uint32_t>(i)));
  std::vector<std::jthread> threads;
  threads.reserve(workers.size());
  for (auto& w : workers) threads.emplace_back([&w](std::stop_token const& stop) { w->work(stop); });
  char none = 0;
  while (::read(line, &none, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

void be_client(options const& o, ledger& l, std::filesystem::path const& folder, std::uint32_t seat,
               std::uint32_t life, int line) noexcept {
  int status = 0;
  try {
    work(o, l, folder, seat, life, line);
  } catch (std::exception const& e) {
    std::cerr << "client " << seat << " ended: " << e.what() << std::endl;
    status = 1;
  }
  ::_exit(status);
}

}  // namespace rowlock::torture
