#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/lock_manager.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

namespace rowlock::recipes {
class campaign;
class elected_term;
class leadership_term;
class sleeper;
struct candidacy;
}  // namespace rowlock::recipes
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The leader, as the database says.
struct leader_info {
  std::string value;  ///< election_options::value, such as its address
  std::string host;
  std::int64_t pid = 0;
  std::chrono::system_clock::time_point since;  ///< by the database's clock
  fencing_token token;                          ///< rises with each term
};

/// Asks the database once, in no wait queue. The answer can be outdated at once: only the leader itself, by
/// its token or guarded transactions, knows that it leads.
/// @return empty if there is no leader
/// @throws error; errc::invalid_argument as lock_manager::make_mutex()
ROWLOCK_EXPORT std::optional<leader_info> find_leader(lock_manager&, std::string const& name);

/// Reports the leader and each change, by asking at regular intervals on a thread of its own.
///
/// Preconditions: the lock_manager exists as long as the object. The callback must not destroy it.
///
/// Thread safety: distinct objects are independent.
class ROWLOCK_EXPORT leader_watch {
 public:
  using callback = std::function<void(std::optional<leader_info> const&)>;

  /// Calls `changed` once with the first answer, and then for each other leader, term or value. A term
  /// between two questions is not seen. While the database can't be asked, there is no call. Exceptions are
  /// dropped. `every` is the wait between two questions, 10 ms to 1 h.
  /// @throws error(errc::invalid_argument)
  leader_watch(lock_manager&, std::string name, callback changed,
               std::chrono::milliseconds every = std::chrono::seconds(1));
  /// Waits for a running callback, and up to manager_options::reply_timeout if the database does not answer.
  ~leader_watch();
  leader_watch(leader_watch const&) = delete;
  leader_watch& operator=(leader_watch const&) = delete;

 private:
  std::jthread thread_;
};

struct election_options {
  /// The longest wait of other candidates after the leader's death, from 100 ms to 366 days.
  std::chrono::milliseconds ttl{30'000};
  /// Shown to observers while this candidate leads, such as its address; at most 1024 bytes of UTF-8.
  /// `rowlock list` shows it as the lock's note.
  std::string value{};
  /// Whether this candidate is fit to lead. Called before each campaign, after a won one, and every
  /// health_interval while it leads, then on a thread of the election. After false or an exception the
  /// candidate does not campaign, or resigns. Should be quick: run() waits for it.
  std::function<bool()> healthy{};
  std::chrono::milliseconds health_interval{1'000};  ///< 10 ms to 1 h
  /// Whether run() campaigns again after a term, or returns.
  bool again = true;
  /// The time that the work needs to stop, at most half of the ttl. Without a renewal the work is told to
  /// stop that long before trust ends, and so stops before another candidate leads. Zero means a sixth of the
  /// ttl, 5 s at most.
  std::chrono::milliseconds stop_within{0};
  /// Called once in a term, by a thread of the election, if the work has not returned stop_within after it
  /// was told to stop. If trust has ended, another leader can be at work. May end the process (std::abort,
  /// std::_Exit). After its return run() goes on waiting for the work.
  std::function<void()> on_overrun{};
};

/// One term as the leader, for the work.
///
/// Thread safety: all members may be called concurrently while the work runs.
class ROWLOCK_EXPORT leadership {
 public:
  leadership(leadership const&) = delete;
  leadership& operator=(leadership const&) = delete;

  /// Send it along with writes to other systems, so that they refuse late writes of a previous leader.
  fencing_token token() const noexcept;
  /// As held_lock::trusted_until().
  boot_time_point trusted_until() const noexcept;
  /// For transaction::require(): guards a commit of the leader.
  held_lock const& lock() const noexcept;
  /// Ends the term: tells the work to stop. After its return the next candidate leads at once.
  void resign() noexcept;
  /// Changes the value for observers, for the rest of this term. One round trip.
  /// @return false if the term is over
  /// @throws error as held_lock::set_note()
  bool set_value(std::string const& value);

 private:
  friend class election;
  friend class recipes::elected_term;
  explicit leadership(recipes::leadership_term& term) noexcept : term_(term) {}
  recipes::leadership_term& term_;
};

/// A term that was won by election::async_campaign(). Move-only. The destructor ends the term, and does not
/// wait: the work must have returned by then.
///
/// An object that was moved from may be assigned to and destroyed.
///
/// Thread safety: distinct objects are independent. Const members may be called concurrently.
class ROWLOCK_EXPORT elected {
 public:
  elected(elected&&) noexcept;
  elected& operator=(elected&&) noexcept;
  ~elected();

  /// Told as to the work of election::run(). Callbacks run on a thread of the election: keep them short.
  std::stop_token stop_token() const noexcept;
  leadership& operator*() const noexcept;
  leadership* operator->() const noexcept;

 private:
  friend class recipes::campaign;
  explicit elected(std::unique_ptr<recipes::elected_term>) noexcept;
  void end() noexcept;
  std::unique_ptr<recipes::elected_term> term_;
};

/// One candidate among several, on any number of hosts, of which at most one leads at a time.
///
///     rowlock::election e{manager, "scheduler", {.value = "10.0.0.7:8080"}};
///     e.run([&](rowlock::leadership& l, std::stop_token stop) { while (!stop.stop_requested()) ...; },
///           stop_of_the_program);
///
/// An election is a lock of that name, of strategy lease. A candidate stands in the server's wait queue
/// (mutex_options::fair), or without one tries twice a second.
///
/// No other candidate leads until leadership::trusted_until(). Paused work does not notice that time: guard
/// its writes by transaction::require(leadership::lock()) or token().
///
/// Preconditions: the lock_manager exists while leader() is called, and should exist until run() has
/// returned: its end releases the lock, which the work learns only within a second.
///
/// Thread safety: leader() may be called concurrently, also during run().
class ROWLOCK_EXPORT election {
 public:
  using work = std::function<void(leadership&, std::stop_token)>;

  /// @throws error(errc::invalid_argument) as lock_manager::make_mutex(), and if an option is out of range
  election(lock_manager&, std::string name, election_options options = {});
  election(election const&) = delete;
  election& operator=(election const&) = delete;

  std::string const& name() const noexcept;

  /// Campaigns, calls `w` while it leads, and campaigns again, until `stop` is triggered or the lock_manager
  /// is destroyed. `w` runs on the calling thread, and never twice at once. Its stop_token is triggered by
  /// `stop`, by resign(), after a failed health check, and if the lock is lost or not renewed in time
  /// (election_options::stop_within). Callbacks on the token run on a thread of the election: keep them
  /// short.
  ///
  /// After the return of `w` the lock is released, and the next candidate leads at once. run() campaigns
  /// again after a second, so that other candidates have their turn without a wait queue.
  /// @return whether it led at least once
  /// @throws exceptions of `w`, after it has resigned; error as basic_mutex::acquire(), which rides out
  /// retryable errors; errc::would_deadlock during another run() of this object
  bool run(work const& w, std::stop_token stop = {});

  /// As run(), for an event loop: returns at once, and `where` calls `handler(std::exception_ptr,
  /// std::optional<elected>)` once this candidate leads. Empty if `stop` is triggered or the lock_manager
  /// ends. The work is the caller's, and ends before the elected object does:
  ///
  ///     while (auto term = co_await e.async_campaign(loop, stop)) co_await work(**term, term->stop_token());
  ///
  /// A campaign begins a second after this object's last term. election_options::healthy is called by the
  /// library's thread for continuations (on_library_thread), and delays the others there.
  ///
  /// Preconditions: this object exists until the handler was called.
  /// @throws error as basic_mutex::async_acquire(); errc::would_deadlock during another campaign, run() or
  /// term of this object
  template <std::invocable<std::exception_ptr, std::optional<elected>> Handler>
  void async_campaign(executor const& where, Handler handler, std::stop_token stop = {}) {
    campaigning()(where, async_handler<std::optional<elected>>::of(std::move(handler)), std::move(stop));
  }
  async_result<std::optional<elected>> async_campaign(std::reference_wrapper<executor const> where,
                                                      std::stop_token stop = {});

  /// As find_leader(). @throws error
  std::optional<leader_info> leader() const;

 private:
  async_start<std::optional<elected>> campaigning();
  bool wait_until_healthy(recipes::sleeper&, std::stop_token const&) const;
  /// @return whether it led; empty to end run()
  std::optional<bool> lead_once(work const&, std::stop_token const&);

  lock_manager& manager_;
  election_options options_;
  mutex mutex_;
  std::shared_ptr<recipes::candidacy> const candidacy_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
