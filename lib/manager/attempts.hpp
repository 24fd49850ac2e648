#pragma once
// One call's attempts to take a lock, or several, all or none: what each of them asks the database, and what
// they have found out together. Waits for nothing but replies; when the next one is made is the lock_call's
// business.

#include <chrono>
#include <optional>
#include <rowlock/error.hpp>
#include <span>
#include <stop_token>
#include <vector>

#include "manager/doubtful_takes.hpp"
#include "manager/engine.hpp"
#include "manager/lock_spec.hpp"
#include "manager/watched_row.hpp"

namespace rowlock::managing {

/// Used by one thread.
class attempts {
 public:
  /// `specs` outlive it: at least one, the same but for their names, in the order of those.
  attempts(engine&, std::span<lock_spec const> specs, owner_id, std::stop_token);

  /// One attempt. `wait_until`: for a strategy that waits in the server; empty: it only looks. `where`: for
  /// one that counts.
  /// @return true if all were had: granted() has them. If not, seen() and contended() say what was in the
  /// way, and nothing was taken
  /// @throws error; in_doubt() tells whether this or a former attempt may have been granted all the same
  bool make(std::optional<boot_time_point> wait_until, strategies::wanted_permit::place where);

  struct grant {
    holding::grant_facts facts;
    std::optional<holding::session_pinger::anchor> session{};  ///< of a strategy that owns it
  };
  /// In the order of the names; empty if there was none.
  std::vector<grant>& granted() noexcept { return granted_; }
  /// They are held: from now on others see to it that they are given back.
  void are_held() noexcept { takes_.settle(); }

  /// The first name that is in the way, and its row as last seen, or who of this process has it.
  std::optional<std::size_t> busy() const noexcept { return busy_; }
  strategies::term_row const* seen() const noexcept { return busy_ ? &*rows_[*busy_] : nullptr; }
  /// Another thread of this process has that name, or none has it any more.
  void look_at(std::size_t, std::optional<holder_info> holder);
  /// Tells the program whom the call is going to wait for, as far as that is known.
  void report_wait() const noexcept;
  /// The name was seen to be recorded as done: nobody holds it, and nobody is to wait for it.
  bool was_done() const noexcept;
  /// The last attempt failed although nobody holds any of them.
  bool contended() const noexcept { return contended_; }
  /// Others keep away for a moment: whoever comes back later has had its turn in vain.
  bool waited_for() const noexcept { return std::chrono::steady_clock::now() < waited_for_until_; }
  bool in_doubt() const noexcept { return takes_.in_doubt(); }
  /// All were granted, and trust was over when the reply came.
  bool came_too_late() const noexcept { return takes_.came_too_late(); }
  /// How soon what was seen can be had, if nobody gives it back before; empty if that is not known.
  std::optional<std::chrono::milliseconds> can_be_had_in() const;

  /// The token that a quorum's other members are asked for meanwhile; empty: none.
  void propose(std::optional<fencing_token> token) noexcept { proposed_ = token; }

  /// From now on as many tokens as several owners of this process need are drawn by each take of one name.
  void draw_for_others() noexcept;

 private:
  using rows = std::vector<std::optional<strategies::term_row>>;
  using to_be_superseded = std::vector<std::optional<strategies::superseded>>;  ///< empty: none
  /// Of a take.
  struct outcome {
    std::vector<fencing_token> tokens{};  ///< the lowest for each name; empty: it was refused
    int drawn = 1;
    rows read{};
    bool by_nobody = false;
  };

  bool one() const noexcept { return specs_.size() == 1; }
  bool ask();
  bool ask(backend::connection&);
  /// @return nothing if this take was not granted together with those of other threads: it is to be tried
  /// alone
  std::optional<bool> ask_with_others();
  bool wait_in_server(std::optional<boot_time_point> until);
  bool take(backend::connection&, to_be_superseded const&);
  outcome send(backend::connection&, to_be_superseded const&);
  outcome send_one(backend::connection&, strategies::take_request, to_be_superseded const&);
  outcome send_all(backend::connection&, strategies::take_request const&, to_be_superseded const&);
  void saw(outcome);
  bool refused_by_itself() noexcept;
  std::optional<to_be_superseded> what_may_be_superseded();
  bool found_granted(backend::connection&, doubtful_takes::fate);
  bool accept(backend::connection&, std::span<fencing_token const>, int drawn);
  bool accept(std::span<fencing_token const>, int drawn, std::size_t server);
  strategies::take_request request() const;

  engine& engine_;
  std::span<lock_spec const> const specs_;
  lock_spec const& any_;  ///< for what is the same for all
  strategies::locking_strategy const& strategy_;
  owner_id const owner_;
  std::stop_token const stop_;

  int tokens_ = 1;
  std::optional<fencing_token> proposed_;
  strategies::wanted_permit permit_;
  bool contended_ = false;
  std::chrono::steady_clock::time_point waited_for_until_{};
  doubtful_takes takes_;
  rows rows_;
  std::optional<std::size_t> busy_;
  std::vector<watched_row> watch_;  ///< of the rows as last seen
  std::vector<grant> granted_;
};

}  // namespace rowlock::managing
