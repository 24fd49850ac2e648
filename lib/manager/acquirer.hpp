#pragma once
// One call that takes a lock: line up inside the process, then attempt, wait, attempt again.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <stop_token>
#include <vector>

#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"

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
  /// An attempt whose reply was lost: it may have been granted, or may yet be.
  struct doubt {
    term_id term;
    boot_time_point sent_at;
  };
  /// Since when this process sees the row unchanged, by its own clock: takeover::observed, or the clock went
  /// back.
  struct observation {
    term_id term;
    std::int64_t renewals = 0;
    std::chrono::milliseconds silence{0};
    boot_time_point since;
    boot_time_point ripe() const noexcept;
  };

  result lost(acquire_status) const;
  waiting::local_queue::key place() const;
  result queue();
  void connect();
  result compete(waiting::local_queue::turn, std::shared_ptr<holding::hold> const& former_self);
  bool attempt();
  bool attempt_in_server();
  strategies::take_request request() const;
  holding::grant_facts facts(fencing_token, term_id const&, boot_time_point sent_at,
                             std::size_t server) const;
  boot_time_point patience_ends() const noexcept;
  bool settle_doubts(backend::connection&);
  bool claim_doubtful_term(backend::connection&, strategies::term_row const&);
  bool take(backend::connection&, std::optional<strategies::superseded> const&);
  bool accept_grant(backend::connection&, fencing_token, term_id const&, boot_time_point sent_at);
  void give_back_at_once(backend::connection&, term_id const&) noexcept;
  error doubtful(error const& last) const;
  std::optional<strategies::superseded> observe(strategies::term_row const&);
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
  strategies::locking_strategy const& strategy_;
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

  int attempts_ = 0;
  std::chrono::milliseconds backoff_;
  std::optional<error> last_error_;
  bool contended_ = false;  ///< the last attempt failed although nobody holds it
  bool in_doubt_ = false;   ///< since the last lost reply the row could not be looked at
  std::vector<doubt> doubts_;
  std::optional<strategies::term_row> seen_;  ///< the row as last seen
  std::optional<observation> observed_;       ///< of the row as last seen, if watching it is of use
  std::optional<holding::grant_facts> granted_;
  std::optional<holding::session_pinger::anchor> session_;  ///< of a strategy that owns it
};

}  // namespace rowlock::managing
