#pragma once
// The attempts of one lock_call: their questions to the database, and their findings. An attempt waits only
// for replies. The lock_call decides when the next attempt is made.

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
  /// `specs`: as for lock_call.
  attempts(engine&, std::span<lock_spec const> specs, owner_id, std::stop_token);

  /// One attempt. `wait_until`: for a strategy that waits in the server (empty: no wait). `where`: for
  /// permits. `on`: by itself and on this session, instead of one of the pool's.
  /// @return true if all were granted. If false, nothing was taken: see seen() and contended()
  /// @throws error. in_doubt() says whether an attempt might have been granted
  bool make(std::optional<boot_time_point> wait_until, strategies::wanted_permit::place where,
            backend::connection* on);

  struct grant {
    holding::grant_facts facts;
    std::optional<holding::session_pinger::anchor> session{};  ///< if the strategy owns one
  };
  /// In the order of the names.
  std::vector<grant>& granted() noexcept { return granted_; }
  /// The holds release the granted locks from now on.
  void are_held() noexcept { takes_.settle(); }

  /// The first busy name, and its row as last seen, or its holder in this process.
  std::optional<std::size_t> busy() const noexcept { return busy_; }
  strategies::term_row const* seen() const noexcept { return busy_ ? &*rows_[*busy_] : nullptr; }
  /// Notes the name's holder in this process. Empty: none any more.
  void look_at(std::size_t, std::optional<holder_info> holder);
  /// Calls `on_wait` with the holder, if known.
  void report_wait() const noexcept;
  /// The name's row is a record that the work is done.
  bool was_done() const noexcept;
  /// The last attempt failed without a holder: a transaction has a row locked.
  bool contended() const noexcept { return contended_; }
  /// The last attempt failed without a holder: the database may have forgotten locks. See quarantine.hpp
  bool quarantined() const noexcept { return boot_clock::now() < quarantined_until_; }
  /// Other takes leave a permit for this call just now, but not for long.
  bool waited_for() const noexcept { return std::chrono::steady_clock::now() < waited_for_until_; }
  bool in_doubt() const noexcept { return takes_.in_doubt(); }
  /// The reply to a grant came after trust had ended.
  bool came_too_late() const noexcept { return takes_.came_too_late(); }
  /// The time until the busy name can be taken even without a release. Empty: unknown.
  std::optional<std::chrono::milliseconds> can_be_had_in() const;

  /// When the busy name can be taken over by observation. Empty: unknown.
  std::optional<boot_time_point> ripe() const noexcept {
    return busy_ ? watch_[*busy_].ripe() : std::nullopt;
  }

  /// Of a quorum: the vote that later attempts ask for.
  void ask_for(strategies::wanted_vote vote) noexcept { vote_ = std::move(vote); }

  /// Later takes of a single name draw a block of tokens, for hand-offs.
  void draw_for_others() noexcept;

 private:
  using rows = std::vector<std::optional<strategies::term_row>>;
  using to_be_superseded = std::vector<std::optional<strategies::superseded>>;  ///< empty: none
  struct outcome {
    std::vector<fencing_token> tokens{};  ///< the lowest for each name. Empty: refused
    int drawn = 1;
    rows read{};
    bool by_nobody = false;
  };

  bool one() const noexcept { return specs_.size() == 1; }
  bool ask();
  bool ask(backend::connection&);
  /// @return empty if the take is still to be tried alone
  std::optional<bool> ask_with_others();
  bool wait_in_server(std::optional<boot_time_point> until);
  bool take(backend::connection&, to_be_superseded const&);
  outcome send(backend::connection&, to_be_superseded const&);
  outcome send_one(backend::connection&, strategies::take_request, to_be_superseded const&);
  outcome send_all(backend::connection&, strategies::take_request const&, to_be_superseded const&);
  void saw(outcome);
  bool refused_by_itself() noexcept;
  /// After a refusal without a live holder. @return true if the database grants by now
  bool quarantine_ended(backend::connection&);
  std::optional<to_be_superseded> what_may_be_superseded(backend::connection&);
  std::optional<strategies::superseded> watch(backend::connection&, std::size_t);
  bool found_granted(backend::connection&, doubtful_takes::outcome);
  bool accept(backend::connection&, std::span<fencing_token const>, int drawn);
  bool accept(std::span<fencing_token const>, int drawn, std::size_t server);
  strategies::take_request request() const;

  engine& engine_;
  std::span<lock_spec const> const specs_;
  lock_spec const& any_;
  strategies::locking_strategy const& strategy_;
  owner_id const owner_;
  std::stop_token const stop_;

  int tokens_ = 1;
  std::optional<strategies::wanted_vote> vote_;
  strategies::wanted_permit permit_;
  bool contended_ = false;
  boot_time_point quarantined_until_{};
  std::chrono::steady_clock::time_point waited_for_until_{};
  doubtful_takes takes_;
  rows rows_;
  std::optional<std::size_t> busy_;
  std::vector<watched_row> watch_;
  std::vector<grant> granted_;
};

}  // namespace rowlock::managing
