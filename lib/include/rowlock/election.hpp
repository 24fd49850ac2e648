#pragma once

#include <rowlock/export.hpp>
#include <rowlock/lock_manager.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

namespace rowlock::recipes {
class leadership_term;
class sleeper;
}  // namespace rowlock::recipes
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Who leads, as the database says.
struct leader_info {
  std::string value;  ///< what the leader says of itself, such as its address: election_options::value
  std::string host;
  std::int64_t pid = 0;
  std::chrono::system_clock::time_point since;  ///< by the database's clock
  fencing_token token;                          ///< rises with each term; no two terms have the same
};

/// Asks the database. Waits for nobody, and never stands in a line. The answer is of the past as soon as it
/// is there: only the leader itself, by its token or its guarded transactions, knows that it leads.
/// @return empty if nobody leads
/// @throws error; errc::invalid_argument as lock_manager::make_mutex()
ROWLOCK_EXPORT std::optional<leader_info> find_leader(lock_manager&, std::string const& name);

/// Tells a program who leads, and when that changes: by asking at regular intervals, on a thread of its own.
///
/// Preconditions: the lock_manager exists as long as the object. The callback must not destroy it.
///
/// Thread safety: distinct objects are independent.
class ROWLOCK_EXPORT leader_watch {
 public:
  using callback = std::function<void(std::optional<leader_info> const&)>;

  /// Calls `changed` once as soon as the database has told who leads, or that nobody does, and then whenever
  /// it tells another leader, another term of the same one, or another value. A term that comes and goes
  /// between two questions is not seen. While the database can't be asked, nothing is told. What the callback
  /// throws is dropped. `every` is the wait between two questions, 10 ms to 1 h.
  /// @throws error(errc::invalid_argument)
  leader_watch(lock_manager&, std::string name, callback changed,
               std::chrono::milliseconds every = std::chrono::seconds(1));
  /// Waits for a callback that is running, and for manager_options::reply_timeout if the database does not
  /// answer.
  ~leader_watch();
  leader_watch(leader_watch const&) = delete;
  leader_watch& operator=(leader_watch const&) = delete;

 private:
  std::jthread thread_;
};

struct election_options {
  /// How long the others wait at most after the leader has died; from 100 ms to 366 days.
  std::chrono::milliseconds ttl{30'000};
  /// What observers are told of this candidate once it leads, such as the address at which it is to be
  /// reached; at most 1024 bytes of UTF-8. It is the lock's note: `rowlock list` shows it.
  std::string value{};
  /// Whether this candidate is fit to lead: asked before each campaign, when it was won, and every
  /// health_interval while it leads. False, or an exception, means no: it does not campaign, or resigns.
  /// While it leads, a thread of the election's own asks. Should be quick: run() waits for a call that is
  /// under way.
  std::function<bool()> healthy{};
  std::chrono::milliseconds health_interval{1'000};  ///< 10 ms to 1 h
  /// Whether run() campaigns again after a term has ended. Otherwise it returns.
  bool again = true;
  /// How long the work needs to stop, at most half of the ttl. If no renewal has come that long before trust
  /// ends, the work is told to stop: so one that keeps to it has stopped before anybody else can lead. Zero
  /// means a sixth of the ttl, 5 s at most.
  std::chrono::milliseconds stop_within{0};
  /// Called once in a term, by a thread of the election's own, if the work was told to stop and has not
  /// returned after stop_within: if trust has ended meanwhile, another leader may be at work. May end the
  /// process (std::abort, std::_Exit), so that it does no harm. If it returns, run() goes on waiting for the
  /// work.
  std::function<void()> on_overrun{};
};

/// One term as the leader, for the work that is done in it.
///
/// Thread safety: all members may be called from several threads at once, as long as the work runs.
class ROWLOCK_EXPORT leadership {
 public:
  leadership(leadership const&) = delete;
  leadership& operator=(leadership const&) = delete;

  /// Send it along with what the work writes elsewhere, so that late writes of a former leader are refused.
  fencing_token token() const noexcept;
  /// The latest time at which this process may act as the leader, see held_lock::trusted_until().
  boot_time_point trusted_until() const noexcept;
  /// For transaction::require(): what is committed with it was committed by the leader.
  held_lock const& lock() const noexcept;
  /// Ends the term: the work is told to stop, and when it has returned the next candidate leads at once.
  void resign() noexcept;
  /// Changes what observers are told, for the rest of this term. One round trip.
  /// @return false if the term is over
  /// @throws error as held_lock::set_note() does
  bool set_value(std::string const& value);

 private:
  friend class election;
  explicit leadership(recipes::leadership_term& term) noexcept : term_(term) {}
  recipes::leadership_term& term_;
};

/// One candidate among several, on any number of hosts, of which at most one leads at a time.
///
///     rowlock::election e{manager, "scheduler", {.value = "10.0.0.7:8080"}};
///     e.run([&](rowlock::leadership& l, std::stop_token stop) { while (!stop.stop_requested()) ...; },
///           stop_of_the_program);
///
/// An election is a lock of that name, of strategy lease. A candidate stands in the server's line for it,
/// where there is one (mutex_options::fair), and tries twice a second where there is none.
///
/// That nobody else leads is sure until leadership::trusted_until(). Work that is paused does not see that
/// this has passed: what it writes is safe by transaction::require(leadership::lock()) or by token().
///
/// Preconditions: the lock_manager exists while leader() is called. It should exist until run() has returned:
/// its end gives the lock back, and work that is under way hears of it within a second only.
///
/// Thread safety: leader() may be called from several threads at once, also while run() is under way.
class ROWLOCK_EXPORT election {
 public:
  using work = std::function<void(leadership&, std::stop_token)>;

  /// @throws error(errc::invalid_argument) as lock_manager::make_mutex(), or if an option is out of range
  election(lock_manager&, std::string name, election_options options = {});
  election(election const&) = delete;
  election& operator=(election const&) = delete;

  std::string const& name() const noexcept;

  /// Campaigns, calls `w` when it leads, and campaigns again when `w` has returned, until `stop` is triggered
  /// or the lock_manager is destroyed. `w` runs on the calling thread: there is never a second one beside it,
  /// whatever it does. Its stop_token is triggered when `stop` is, by resign(), when the health check fails,
  /// and when the lock is lost or not renewed in time (election_options::stop_within). Callbacks on the token
  /// run on a thread of the election's own; keep them short.
  ///
  /// When `w` returns, the term is given back, and the next candidate leads at once. Before this one
  /// campaigns again it waits for a second, so that others have their turn also where there is no line.
  /// @return whether it led at least once
  /// @throws whatever `w` throws, after it has resigned; error as basic_mutex::acquire() does: retryable
  /// errors are ridden out; errc::would_deadlock if another run() of this object is under way
  bool run(work const& w, std::stop_token stop = {});

  /// Who leads: find_leader(). @throws error
  std::optional<leader_info> leader() const;

 private:
  bool wait_until_healthy(recipes::sleeper&, std::stop_token const&) const;
  /// @return whether it led; empty if it is to campaign no more
  std::optional<bool> lead_once(work const&, std::stop_token const&);

  lock_manager& manager_;
  election_options options_;
  mutex mutex_;
  std::atomic<bool> runs_{false};
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
