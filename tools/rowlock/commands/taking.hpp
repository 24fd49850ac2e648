#pragma once

#include <chrono>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <string>

#include "cli.hpp"
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

  /// --wait, -w, -n, --fair and -E. *this must outlive the App.
  void add_to(CLI::App& command);
};

/// One lock that a command asks for: waits for it, says who holds it, and is ended by a signal.
class taking {
 public:
  taking(database const&, lock_manager&, std::string const& name, mutex_options, waiting_options const&,
         signal_setup const&);

  /// @return null if it was not taken: then ended() says how the program is to end, and the reason was
  /// printed
  std::optional<held_lock> take(invocation const&);
  end_of_program ended() const noexcept { return ended_; }

 private:
  std::optional<held_lock> attempt();
  void connect();
  acquisition acquire(std::stop_token);
  acquisition wait_for(std::stop_token);
  void refuse_own(acquisition const&) const;
  void say_not_had(acquisition const&) const;

  database const& db_;
  lock_manager& manager_;
  std::string const& name_;
  mutex_options how_;
  waiting_options const& options_;
  descriptor signal_fd_;
  end_of_program ended_;
};

/// The same for the same address, schema and prefix, in two programs too.
std::string fingerprint(database const&);

}  // namespace rowlock::tool
