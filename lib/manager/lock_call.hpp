#pragma once
// A call that takes a lock, or several locks all or none. The coroutine run() is the whole procedure. run()
// never waits, but yields its next need (steps.hpp).
//
// The call can wait in three ways, the cheapest first:
// - In the local queue. One thread of this process deals with a name. The other threads stand in line behind
//   it, without a round trip. The first of them can get the lock by a hand-off.
// - In the name's wait queue, in the server. The queue orders the waiters of several processes, and never
//   decides which waiter gets the lock.
// - By polling, where there is no wait queue, or with a retry policy or a bound of attempts.
//
// run() asks `connect` until the database was reached once: the keys of the local queue need its identity.
// Then each round has these steps:
// 1. The call takes its place in the local queue of each name, in the order of the names, without waiting.
//    If the thread holds a recursive lock or a reader's permit already, the result is one more handle. If
//    another thread has a place, the call stands in line for it. The turn brings the lock by hand-off, or a
//    new round begins.
// 2. `stand`: with `fair`, or if other processes waited for a name a moment ago, the call enters the wait
//    queue first, and a new round begins. Otherwise a busy process could overtake them for ever.
// 3. `attempt`: one attempt for all names (attempts.hpp). A grant ends the call. If trust has ended by then,
//    the locks are released (`give_back`).
// 4. If the wait policy allows no other attempt, the call ends. Otherwise it waits for one busy name, in its
//    wait queue (`stand`) or by a rest.
// A call without a lock leaves the wait queue (`leave`) before it returns, unless it was cancelled.
//
// Invariants:
// - An attempt needs the places of all names. Two exceptions: a name that the same explicit owner holds
//   (previous_holders_), and a call that must not wait for a permit that several threads can have.
// - While the call waits for one of several names, it has no lock, and no place or queue place of another
//   name. So no two calls wait for each other.
// - The call stands in at most one line (line_) and one wait queue (queue_, of the name queue_of_).
// - handed_off_ is set only from the turn's arrival until accept_hand_off().
// - won_ is set only from the grant until the result. The destructor leaves these locks to the manager's
//   threads. Otherwise they would be renewed for ever.
// - Only ask() reaches the database. ask() stores an error in failure_, and run() judges it.

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

/// The result of a call that takes.
struct taken {
  std::vector<std::shared_ptr<holding::hold>> won{};  ///< in the order of the specs
  acquire_status why = acquire_status::acquired;
  std::optional<holder_info> holder{};
  std::string busy{};  ///< the first busy name, if known
};

/// Reports an event if the call has ended without a lock, and was not cancelled.
void tell_refused(engine const&, std::span<lock_spec const>, taken const&, boot_time_point began) noexcept;

/// One call, made in the thread that will own the locks. Used by one thread at a time.
class lock_call : private waiting::successor {
 public:
  using need = steps<taken>::need;

  /// `specs` and `to_ring` outlive the call. Specs: at least one, in the order of their names, none twice,
  /// and otherwise equal. `to_ring` rings when a pause ends early: at the turn in line, or if the call is
  /// stopped.
  lock_call(engine&, std::span<lock_spec const> specs, wait_policy, std::stop_token, waiting::bell& to_ring);
  ~lock_call() override;
  lock_call(lock_call const&) = delete;
  lock_call& operator=(lock_call const&) = delete;

  /// See steps::next(). @throws error, and the exceptions of the program's retry policy
  need next() { return run_.next(stopped()); }
  /// Asks the question that next() returned. Waits for replies of the database. In a wait queue, and with a
  /// strategy that waits in the server, until the call's deadline.
  void ask();
  /// Instead of ask(), for a question that waits in the server: the driver has no thread for it. The call
  /// comes back later.
  void find_no_room();
  /// Instead of ask(), for `connect`: another call has asked. If its answer is of no use here, next() asks
  /// again.
  void share_answer(lock_call const& other);
  /// Ends a rest early, because the watch has seen its name.
  void end_rest() noexcept { run_.end_rest(); }
  /// Whether the destructor would leave a wait queue, which closes a session.
  bool has_leftovers() const noexcept { return has_queue(); }

 private:
  using time_point = std::chrono::steady_clock::time_point;
  using index = std::optional<std::size_t>;
  struct ending {
    acquire_status why = acquire_status::cancelled;
    std::optional<error> thrown{};
  };
  /// The outcome of take_places().
  struct entrance {
    index busy{};                             ///< the first that another thread has
    std::shared_ptr<holding::hold> shared{};  ///< this thread's lock
    bool again = false;                       ///< that lock is just being released
  };

  steps<taken> run();

  // The local queue.
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
  bool has_places() const noexcept;  ///< an attempt may be made
  bool may_wait() const noexcept { return !wait_policy_.one_attempt && !wait_policy_.over(); }

  // The wait queue.
  index begins_at() const;
  queue_place& queue_of(std::size_t);
  bool has_queue() const noexcept { return queue_ && queue_->got(); }
  bool leaves_queue(index kept) const noexcept { return has_queue() && kept != queue_of_; }
  bool waits_at_queue() const noexcept;
  bool gives_place_up() noexcept;
  bool changed_hands() noexcept;

  // Questions.
  void connect();
  void stand(std::size_t);
  void attempt();
  bool make_attempt();
  void take_back_others();
  void hold_all();
  /// `whole`: all names were granted and held.
  void give_back_won(bool whole);

  // The next step.
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
  watchable watched() const noexcept;
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
  lock_spec const& any_;  ///< for what all specs share
  wait_policy const wait_policy_;
  waiting::bell& bell_;
  stop_request const stop_;
  time_point const called_at_ = std::chrono::steady_clock::now();
  owner_id const owner_;
  waiting::retry_waits waits_;

  std::vector<std::optional<waiting::local_queue::turn>> places_;
  std::vector<std::shared_ptr<holding::hold>> previous_holders_;  ///< same explicit owner
  std::shared_ptr<waiting::local_holder> in_front_;               ///< the holder of the busy place
  std::optional<waiting::local_queue::turn> as_reader_;  ///< a reader's own place, besides the name's
  std::optional<waiting::local_queue::in_line> line_;
  std::optional<time_point> look_at_;  ///< if looks count
  std::shared_ptr<holding::hold> handed_off_;
  attempts attempts_;  ///< after places_. Takes in doubt go to the renewer before the places are left
  std::optional<queue_place> queue_;
  std::size_t queue_of_ = 0;

  index waited_for_;           ///< last
  bool stood_ = false;         ///< since the last attempt: in a wait queue, or it had no room
  bool rested_ = false;        ///< since the last attempt
  bool in_vain_ = false;       ///< it stood last, but was not first
  term_id met_;                ///< by the last attempt but one
  bool had_turn_ = false;      ///< after other threads of this process
  bool was_in_front_ = false;  ///< the quorum's hook has heard so
  bool others_asked_ = false;  ///< by the hook, for the last attempt

  // The outcome of the last question.
  std::optional<error> failure_;
  bool granted_ = false;
  bool late_ = false;  ///< granted, but trust has ended
  std::vector<std::shared_ptr<holding::hold>> won_;

  steps<taken> run_;  ///< last: it uses the others
};

}  // namespace rowlock::managing
