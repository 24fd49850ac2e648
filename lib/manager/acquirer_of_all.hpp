#pragma once
// One call that takes several locks, all or none: the places inside the process, then attempt, wait for the
// first name that was busy, attempt again. While it waits for one it has none of the others, not even a place
// in line: so it is in nobody's way, and no two calls wait for each other.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <stop_token>
#include <vector>

#include "manager/attempts.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/patience.hpp"
#include "manager/place_at_gate.hpp"
#include "waiting/bell.hpp"
#include "waiting/retry_waits.hpp"

namespace rowlock::managing {

/// Made for one call, in the thread that is to own the locks, and used by it. Waits in that thread.
class acquirer_of_all {
 public:
  struct result {
    std::vector<std::shared_ptr<holding::hold>> won{};  ///< in the order of the specs; empty: see why
    acquire_status why = acquire_status::acquired;
    std::optional<holder_info> holder{};
    std::string busy{};  ///< the first name that was in the way, if that is known
  };

  /// `specs` outlive it: at least one, the same but for their names, in the order of those, none twice.
  acquirer_of_all(engine&, std::vector<lock_spec> const& specs, patience, std::stop_token);
  acquirer_of_all(acquirer_of_all const&) = delete;
  acquirer_of_all& operator=(acquirer_of_all const&) = delete;

  /// Once. @throws error, and what a retry policy of the program's throws
  result run();

 private:
  using time_point = std::chrono::steady_clock::time_point;

  bool connect();
  std::optional<std::size_t> take_places();
  std::optional<result> wait_in_line(std::size_t);
  std::optional<result> try_once();
  std::optional<result> wait_for_the_busy_one();
  result hold_all();

  std::optional<std::size_t> begins_at() const;
  void stand_at_gate_of(std::size_t);
  /// Whether another name was waited for before: then others wait crosswise, perhaps.
  bool turns_to(std::size_t) noexcept;
  void keep_only(std::optional<std::size_t>) noexcept;
  void rest_until(time_point);
  void rest_a_little();
  bool rest_before_next_try();

  waiting::local_queue::key place(std::size_t) const;
  waiting::local_queue::turn leave_place(std::size_t);
  waiting::local_queue::turn supersede(std::size_t);
  holder_info const* holder() const noexcept;
  bool counts_looks() const noexcept;
  bool waits_at_gate() const noexcept;
  void tell_wait(holder_info const*) const noexcept;
  bool stopped() const noexcept;
  error doubtful(error const&) const;
  result conclude(std::optional<error> const& failure);
  result give_up(acquire_status);

  engine& engine_;
  std::vector<lock_spec> const& specs_;
  mutex_options const& options_;
  patience const patience_;
  waiting::thread_bell bell_;
  // Called by the caller's token, and when the manager is closed.
  struct forward {
    std::stop_source to;
    waiting::bell& bell;
    void operator()() const noexcept {
      (void)std::stop_source(to).request_stop();
      bell.ring();
    }
  };
  std::stop_source const stop_source_;
  std::stop_token const stop_ = stop_source_.get_token();
  std::stop_callback<forward> const on_stop_;
  std::stop_callback<forward> const on_closing_;
  time_point const called_at_ = std::chrono::steady_clock::now();
  owner_id const owner_;

  waiting::retry_waits waits_;
  std::vector<std::shared_ptr<holding::hold>> won_;
  std::vector<std::optional<waiting::local_queue::turn>> places_;
  std::vector<std::shared_ptr<holding::hold>> former_selves_;  ///< whom the same explicit owner replaces
  std::shared_ptr<waiting::occupant> in_front_;                ///< of the place that was not to be had
  attempts attempts_;  ///< ends before the places are left: what is in doubt is given back first
  std::optional<place_at_gate> gate_;
  std::size_t gate_of_ = 0;
  bool stood_ = false;                     ///< at a gate, since the last try
  bool came_too_late_ = false;             ///< the last ones that it had
  std::optional<std::size_t> waited_for_;  ///< last
};

}  // namespace rowlock::managing
