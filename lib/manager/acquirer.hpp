#pragma once
// One call that takes a lock: line up inside the process, then attempt, wait, attempt again. It never waits
// by itself, but says what it needs next: a driver sees to that, with a thread (drive()) or without one.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <stop_token>
#include <variant>

#include "manager/attempts.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/patience.hpp"
#include "manager/place_at_gate.hpp"
#include "waiting/bell.hpp"
#include "waiting/retry_waits.hpp"

namespace rowlock::managing {

/// Made for one call, in the thread that is to own the lock. Used by one thread at a time.
class acquirer : private waiting::heir {
 public:
  struct result {
    std::shared_ptr<holding::hold> won{};  ///< null: see why
    acquire_status why = acquire_status::acquired;
    std::optional<holder_info> holder{};
  };

  /// What it needs before next() is called again.
  struct reply {};  ///< that ask() is called
  struct pause {
    std::optional<std::chrono::steady_clock::time_point> until;  ///< empty: only the bell ends it
  };
  using need = std::variant<reply, pause, result>;

  /// `to_ring` outlives it. It is rung when a pause is over before its time: at its turn in line, or if the
  /// call is stopped.
  acquirer(engine&, lock_spec const&, patience, std::stop_token, waiting::bell& to_ring);
  /// Gives back what was granted and not handed out by next(): nobody else could, and it would be renewed for
  /// ever.
  ~acquirer() override;
  acquirer(acquirer const&) = delete;
  acquirer& operator=(acquirer const&) = delete;

  /// Goes on as far as that can be done at once. May be called too early: then the pause is what is left of
  /// it. After a result, or if it throws, this is at its end.
  /// @throws error, and what a retry policy of the program's throws
  need next();
  /// Waits for replies of the database (a strategy that waits in the server: for as long as the call may
  /// last).
  void ask();

 private:
  using state = std::optional<need> (acquirer::*)();
  using question = void (acquirer::*)();

  // States: what is needed next, or nothing once it is said which state goes on.
  std::optional<need> begin();
  std::optional<need> connected();
  std::optional<need> line_up();
  std::optional<need> look_at_own_permit();
  std::optional<need> stand_in_line();
  std::optional<need> compete();
  std::optional<need> judge();
  std::optional<need> hand_out(std::shared_ptr<holding::hold>);
  std::optional<need> came_too_late(std::shared_ptr<holding::hold> const&);
  std::optional<need> at_gate();
  need try_now() noexcept;
  std::optional<need> try_again_later();
  std::optional<need> rest();
  std::optional<need> go_on(state) noexcept;
  std::optional<need> rest_before(state, std::chrono::steady_clock::time_point until) noexcept;
  need ask_then(question, state) noexcept;

  // Questions.
  void connect();
  void attempt();
  void stand_at_gate();
  bool make_attempt();

  void tell_came_too_late() const noexcept;
  [[noreturn]] void say_would_deadlock(char const* does) const;
  std::optional<need> met(std::shared_ptr<holding::hold> mine);
  std::optional<need> begin_to_compete(waiting::local_queue::turn);
  std::optional<need> take_turn(waiting::local_queue::arrival);
  bool takes_over(waiting::occupant const&, void const* of) const noexcept override;
  /// @return null if it is over, or the manager was closed meanwhile
  std::shared_ptr<holding::hold> inherit(holding::hold&, waiting::local_queue::turn&);
  result conclude();
  result give_up(acquire_status);
  result lost(acquire_status) const;
  result lost_to(waiting::occupant const*, acquire_status) const;
  waiting::local_queue::key place() const;
  strategies::wanted_permit::place place_in_line() const noexcept;
  bool counts_looks() const noexcept;
  bool waits_at_gate() const noexcept;
  bool begins_at_gate() const;
  bool can_ride_out(error const&) noexcept;
  std::optional<std::chrono::milliseconds> next_wait();
  std::optional<std::chrono::steady_clock::time_point> next_attempt_at();
  std::optional<std::chrono::steady_clock::time_point> ride_out_until() const;
  error doubtful() const;
  waiting::local_queue::turn supersede();
  /// @return null if the manager was closed meanwhile; then the lock has been given back
  std::shared_ptr<holding::hold> start_holding(holding::grant_facts, waiting::local_queue::turn);
  /// By the caller's token or the manager's end; or the process ends: what is given back as its static
  /// objects are destroyed is for others.
  bool stopped() const noexcept;

  engine& engine_;
  lock_spec const& spec_;
  patience const patience_;
  waiting::bell& bell_;
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
  std::chrono::steady_clock::time_point const called_at_ = std::chrono::steady_clock::now();
  owner_id const owner_;

  waiting::retry_waits waits_;
  std::optional<waiting::local_queue::in_line> line_;
  std::optional<std::chrono::steady_clock::time_point> look_at_;  ///< at who is in front, if that counts
  std::optional<waiting::local_queue::turn> turn_;
  std::optional<waiting::local_queue::turn> as_reader_;  ///< what is kept instead, if others may come in
  attempts attempts_;  ///< ends before the turn does: what is in doubt is given back first

  state state_ = &acquirer::begin;
  question question_ = nullptr;
  state after_rest_ = nullptr;
  std::chrono::steady_clock::time_point rest_until_;

  place_at_gate gate_;
  bool rested_ = false;                         ///< since the last attempt
  bool had_turn_ = false;                       ///< after others of this process
  bool was_in_front_ = false;                   ///< and somebody was told
  bool others_asked_ = false;                   ///< by that one, for the last attempt
  std::shared_ptr<holding::hold> former_self_;  ///< whom the same owner takes over from, in its turn

  // What became of the last question.
  std::optional<error> failure_;
  bool granted_ = false;
  std::shared_ptr<holding::hold> won_;
};

/// Drives it by the calling thread, which sleeps at its bell meanwhile.
acquirer::result drive(acquirer&, waiting::thread_bell&);

}  // namespace rowlock::managing
