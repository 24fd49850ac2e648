#pragma once
// One thread, or coroutine, of a client: it takes turns, and writes down what it is told.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <rowlock/rowlock.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "history.hpp"
#include "ledger.hpp"
#include "options.hpp"

namespace rowlock::torture {

/// What the threads of one process share.
struct desk {
  options const& o;
  ledger& numbers;
  history_writer const& history;
  lock_manager& manager;
  quorum* voters;  ///< of workload::quorum
  std::uint32_t seat;
  std::uint32_t life;
};

std::string name_of(std::size_t lock);

/// A database that is away is not asked more often.
constexpr std::chrono::milliseconds pause_after_failure{10};

/// Not thread-safe, but for write().
class worker {
 public:
  worker(desk const&, std::uint32_t thread);
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;
  virtual ~worker() = default;

 protected:
  /// A lock that is held, as long as this exists: its loss is written down, and each new trust that nobody
  /// else writes down.
  class told {
   public:
    /// Writes down that it is held.
    told(worker const&, record, held_lock const&);
    told(worker const&, record, quorum_lock const&);
    void look();

   private:
    template <class Lock>
    std::function<void()> on_loss(Lock const&);

    worker const& worker_;
    record record_;
    std::function<std::int64_t()> trust_;  ///< empty: the manager's event tells
    std::int64_t last_ = 0;
    std::stop_callback<std::function<void()>> loss_;
  };

  /// Of the next turn, which begins.
  record begin(std::size_t lock, std::int64_t units = 1);
  void write(record, happening, std::string_view text = {}) const;
  /// Says what came of a call that gave nothing: of `several`, if it was for several names.
  void failed(std::vector<record> const& several, std::exception const&) const;
  void failed(record const& r, std::exception const& e) const { failed(std::vector<record>{r}, e); }
  /// The same, for a worker that must not sleep.
  void note_failure(std::vector<record> const& several, std::exception const&) const;
  /// Passes section_time() while that is true.
  void think(std::function<bool()> const& goes_on) { pass(section_time(), goes_on); }
  /// Less than a renewal may be late.
  void think_briefly(std::function<bool()> const& goes_on);
  /// How long this turn keeps what it has.
  std::chrono::milliseconds section_time();
  std::chrono::milliseconds patience();
  std::size_t draw(std::size_t below) { return random_() % below; }
  mutex_options how() const;

  desk const& desk_;
  std::unique_ptr<section> section_;

 private:
  static void pass(std::chrono::milliseconds, std::function<bool()> const& goes_on);

  std::mt19937 random_;
  std::uint32_t thread_;
  std::uint32_t turn_ = 0;
  boot_time_point asked_;      ///< since when this turn is on
  boot_time_point next_long_;  ///< before that no lock is held for long
};

/// A worker with a thread of its own.
class thread_worker : public worker {
 public:
  using worker::worker;

  /// Asks once, and holds what it gets for a while.
  virtual void turn(std::stop_token const& stop) = 0;
};

/// Of the workload that the options say.
std::unique_ptr<thread_worker> make_worker(desk const&, std::uint32_t thread);

}  // namespace rowlock::torture
