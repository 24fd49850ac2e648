#pragma once
// One call that takes a lock, or several, all or none. It never waits by itself, but says what it needs next:
// run() in lock_call.cpp is the whole of it, from top to bottom.
//
// - Inside the process one thread deals with a name; the others stand in line behind it, and cost no round
//   trip. Whoever is next may get the lock from the one before, as it is.
// - Who comes from elsewhere stands at the name's wait queue in the server, which decides nothing, but rings
// in order.
// - An attempt asks for all names at once (attempts).
// - While it waits for one of several names it has none of the others, not even a place in line: so it is in
//   nobody's way, and no two calls wait for each other.

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/error.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "manager/attempts.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/queue_place.hpp"
#include "manager/steps.hpp"
#include "manager/stop_request.hpp"
#include "manager/wait_policy.hpp"
#include "waiting/bell.hpp"
#include "waiting/retry_waits.hpp"

namespace rowlock::managing {

/// What a call that takes has come to.
struct taken {
  std::vector<std::shared_ptr<holding::hold>> won{};  ///< in the order of the specs; empty: see why
  acquire_status why = acquire_status::acquired;
  std::optional<holder_info> holder{};
  std::string busy{};  ///< the first name that was in the way, if that is known
};

/// Made for one call, in the thread that is to own the locks. Used by one thread at a time.
class lock_call : private waiting::successor {
 public:
  using need = steps<taken>::need;

  /// `specs` outlive it: at least one, the same but for their names, in the order of those, none twice.
  /// `to_ring` outlives it, too. It is rung when a pause is over before its time: at its turn in line, or if
  /// the call is stopped.
  lock_call(engine&, std::span<lock_spec const> specs, wait_policy, std::stop_token, waiting::bell& to_ring);
  /// What was granted and not handed out by next() is given back by the manager's threads: nobody else could,
  /// and it would be renewed for ever.
  ~lock_call() override;
  lock_call(lock_call const&) = delete;
  lock_call& operator=(lock_call const&) = delete;

  /// Goes on as far as that can be done at once. May be called too early: then the pause is what is left of
  /// it. After a result, or if it throws, this is at its end.
  /// @throws error, and what a retry policy of the program's throws
  need next() { return run_.next(stopped()); }
  /// Asks the question that next() came to. Waits for replies of the database (a strategy that waits in the
  /// server, and at a wait queue: for as long as the call may last).
  void ask();

 private:
  using time_point = std::chrono::steady_clock::time_point;
  using index = std::optional<std::size_t>;
  /// How the call ends without a lock.
  struct ending {
    acquire_status why = acquire_status::cancelled;
    std::optional<error> thrown{};
  };
  /// Of all places in the process.
  struct entrance {
    index busy{};                             ///< the first that another thread has
    std::shared_ptr<holding::hold> shared{};  ///< what this thread has already
    bool again = false;                       ///< it was just given back
  };

  steps<taken> run();

  // The line of this process.
  std::shared_ptr<holding::hold> own_permit();
  entrance take_places();
  void meet(std::size_t, std::shared_ptr<holding::hold> mine, entrance&);
  [[noreturn]] void say_would_deadlock(char const* does) const;
  void stand_in_line(std::size_t);
  bool arrived(std::size_t);
  bool count_look();
  time_point next_look_in_line() const;
  bool accept_hand_off();
  bool takes_over(waiting::local_holder const&, void const* of) const noexcept override;
  waiting::local_queue::key place(std::size_t) const;
  waiting::local_queue::turn supersede(std::size_t);
  waiting::local_queue::turn turn_for(std::size_t);
  bool may_wait() const noexcept { return !wait_policy_.one_attempt && !wait_policy_.over(); }

  // The wait queue.
  index begins_at() const;
  queue_place& queue_of(std::size_t);
  bool has_queue() const noexcept { return queue_ && queue_->got(); }
  bool leaves_queue(index kept) const noexcept { return has_queue() && kept != queue_of_; }
  bool waits_at_queue() const noexcept;

  // Questions.
  void connect();
  void stand(std::size_t);
  void attempt();
  bool make_attempt();
  void hold_all();
  /// `whole`: all of them are there.
  void give_back_won(bool whole);

  // What is next.
  bool is_late() const noexcept;
  taken hand_out();
  void keep_only(index) noexcept;
  bool turns_to(std::size_t) noexcept;
  bool counts_looks() const noexcept;
  bool ride_out();
  std::optional<std::chrono::milliseconds> next_wait();
  std::optional<time_point> next_attempt_at();
  std::optional<time_point> moment_ends_at() const;
  time_point soon() const;
  bool asks_others() const noexcept;
  ending conclusion() const;
  error doubtful() const;
  taken lost(acquire_status) const;
  taken lost_to(std::size_t, waiting::local_holder const*, acquire_status) const;
  bool stopped() const noexcept { return stop_.now(); }
  bool one() const noexcept { return specs_.size() == 1; }
  question all(question::kind k) const noexcept { return {k, specs_}; }
  question at(question::kind k, std::size_t i) const noexcept { return {k, specs_.subspan(i, 1)}; }

  engine& engine_;
  std::span<lock_spec const> const specs_;
  lock_spec const& any_;  ///< for what is the same for all
  wait_policy const wait_policy_;
  waiting::bell& bell_;
  stop_request const stop_;
  time_point const called_at_ = std::chrono::steady_clock::now();
  owner_id const owner_;
  waiting::retry_waits waits_;

  std::vector<std::optional<waiting::local_queue::turn>> places_;
  std::vector<std::shared_ptr<holding::hold>> previous_holders_;  ///< whom the same owner takes over from
  std::shared_ptr<waiting::local_holder> in_front_;               ///< of the place that was not to be had
  std::optional<waiting::local_queue::turn> as_reader_;  ///< what is kept instead, if others may come in
  std::optional<waiting::local_queue::in_line> line_;    ///< for one of the places
  std::optional<time_point> look_at_;                    ///< at who is in front, if that counts
  std::shared_ptr<holding::hold> handed_off_;            ///< what came with the turn
  attempts attempts_;  ///< ends before the places are left: what is in doubt is given back first
  std::optional<queue_place> queue_;
  std::size_t queue_of_ = 0;

  index waited_for_;           ///< last
  bool stood_ = false;         ///< at a wait queue, or there was no place, since the last attempt
  bool rested_ = false;        ///< since the last attempt
  bool had_turn_ = false;      ///< after others of this process
  bool was_in_front_ = false;  ///< and somebody was told
  bool others_asked_ = false;  ///< by that one, for the last attempt

  // What became of the last question.
  std::optional<error> failure_;
  bool granted_ = false;
  bool late_ = false;  ///< what was won was too late to be handed out
  std::vector<std::shared_ptr<holding::hold>> won_;

  steps<taken> run_;  ///< last: it uses the others
};

}  // namespace rowlock::managing
