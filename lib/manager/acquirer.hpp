#pragma once
// One call that takes a lock: line up inside the process, then attempt, wait, attempt again.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <stop_token>

#include "manager/attempts.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "waiting/retry_waits.hpp"

namespace rowlock::managing {

/// How long a call may take.
struct patience {
  bool one_attempt = false;
  bool insistent = false;  ///< for callers that can't be told "not got": a bound of attempts does not count
  std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< empty: for ever
};

/// Now plus `timeout`; empty (for ever) if that is beyond the clock's range.
std::optional<std::chrono::steady_clock::time_point> deadline_after(
    std::chrono::nanoseconds timeout) noexcept;

/// Made for one call, used by its thread.
class acquirer {
 public:
  struct result {
    std::shared_ptr<holding::hold> won{};  ///< null: see why
    acquire_status why = acquire_status::acquired;
    std::optional<holder_info> holder{};
  };

  acquirer(engine&, lock_spec const&, patience, std::stop_token);
  result run();

 private:
  result lost(acquire_status) const;
  waiting::local_queue::key place() const;
  result queue();
  void connect();
  result compete(waiting::local_queue::turn, std::shared_ptr<holding::hold> const& former_self);
  boot_time_point patience_ends() const noexcept;
  error doubtful(error const& last) const;
  bool can_ride_out(error const&);
  bool wait_for_next_attempt();
  bool ride_out() const;
  bool pause(std::chrono::steady_clock::time_point until) const;
  waiting::local_queue::stay_until in_line();
  std::optional<std::chrono::milliseconds> next_wait();
  waiting::local_queue::turn supersede(std::shared_ptr<holding::hold> const& former_self);
  /// @return null if the manager was closed meanwhile; then the lock has been given back
  std::shared_ptr<holding::hold> start_holding(waiting::local_queue::turn);
  void give_back_unwatched(holding::hold&);
  result give_up(acquire_status);
  bool past_deadline() const;
  /// By the caller's token or the manager's end; or the process ends: what is given back as its static
  /// objects are destroyed is for others.
  bool stopped() const noexcept;

  engine& engine_;
  lock_spec const& spec_;
  patience const patience_;
  // Triggered by the caller's token, and when the manager is closed.
  struct forward {
    std::stop_source to;
    void operator()() const noexcept { (void)std::stop_source(to).request_stop(); }
  };
  std::stop_source const stop_source_;
  std::stop_token const stop_ = stop_source_.get_token();
  std::stop_callback<forward> const on_stop_;
  std::stop_callback<forward> const on_closing_;
  std::chrono::steady_clock::time_point const called_at_ = std::chrono::steady_clock::now();
  owner_id const owner_;

  waiting::retry_waits waits_;
  attempts attempts_;
  std::optional<error> last_error_;  ///< of the last attempt, if it failed
};

}  // namespace rowlock::managing
