#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string>
#include <vector>

#include "cli.hpp"
#include "commands/covering_lock.hpp"
#include "database.hpp"
#include "exit_status.hpp"
#include "process/signals.hpp"

namespace rowlock::tool {

/// The traits of the strategy that a lock with these options has; if they name none, of the manager's usual
/// one.
inline strategy_traits const& traits_of(mutex_options const& o) {
  return traits(o.strategy.value_or(manager_options{}.strategy));
}

/// How long a command waits for a lock, and what it ends with if it does not get it.
struct waiting_options {
  std::optional<std::chrono::milliseconds> wait;
  bool no_wait = false;
  bool fair = false;
  int conflict_status = exit_busy;  ///< the status if it does not get the lock
  bool patient = false;             ///< waits also if the database can't be reached at first

  /// --wait, -w, -n, --fair and -E. *this must outlive the App.
  void add_to(CLI::App& command);
};

/// How much of a lock a command wants: all of it, unless it says otherwise.
struct share_options {
  bool shared = false;                    ///< beside others that read
  std::optional<std::int64_t> permits{};  ///< beside so many in all
  std::int64_t units = 1;                 ///< of those

  /// --shared, --permits and --units. *this must outlive the App.
  void add_to(CLI::App& command);
  bool all() const noexcept { return !shared && !permits; }
};

/// One lock that a command asks for, or several, all or none: waits for them, says who holds them, and is
/// ended by a signal.
class taking {
 public:
  /// `names`: at least one.
  taking(database const&, lock_manager&, std::vector<std::string> names, mutex_options,
         waiting_options const&, share_options const&, signal_setup const&);
  /// One lock, of a quorum. `first`: any of its members, for messages.
  taking(database const& first, lock_manager&, quorum&, std::string name, mutex_options,
         waiting_options const&, signal_setup const&);

  /// @return in the order of the names; empty if they were not taken: then ended() says how the program is to
  /// end, and the reason was printed
  std::vector<covering_lock> take(invocation const&);
  end_of_program ended() const noexcept { return ended_; }

 private:
  /// What came of an attempt.
  struct attempted {
    std::vector<covering_lock> locks{};
    acquire_status status{};
    std::optional<holder_info> holder{};
    std::string busy{};  ///< which of the names
  };

  std::vector<covering_lock> attempt();
  void connect();
  attempted acquire(std::stop_token);
  attempted wait_for(std::stop_token);
  attempted once();
  /// `left`: empty: for ever.
  acquisition one(bool wait, std::optional<std::chrono::nanoseconds> left, mutex_options const&,
                  std::stop_token);
  attempted until(std::optional<std::chrono::nanoseconds> left, mutex_options const&, std::stop_token);
  attempted of_majority(bool wait, std::optional<std::chrono::nanoseconds> left, mutex_options const&,
                        std::stop_token);
  attempted as_attempted(acquisition) const;
  static attempted as_attempted(acquisition_of_all);
  bool runs_under_one() const;
  void refuse_own(attempted const&) const;
  /// @return what that is for a program
  exit_status say_not_had(attempted const&) const;
  std::string why_quarantined() const;

  database const& db_;
  lock_manager& manager_;
  quorum* const quorum_ = nullptr;
  std::vector<std::string> const names_;
  mutex_options how_;
  waiting_options const& options_;
  share_options const share_;
  descriptor signal_fd_;
  end_of_program ended_;
};

/// The same for the same address, schema and prefix, in two programs too.
std::string fingerprint(database const&);

}  // namespace rowlock::tool
