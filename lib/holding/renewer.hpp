#pragma once
// Renews the locks of a manager, and repeats failed releases.
//
// One thread per manager does both, on a connection of its own. An exception is reported as an event, and
// never ends the thread. Each round of work has this order:
//
// 1. Renewals. A lock is due a third of its ttl after the last renewal began. Locks that are due soon go
//    along. Locks and permits have separate statements.
// 2. Late releases, as long as no renewal is due.
// 3. For loss_details(): which session has a row locked.
//
//   result of a renewal                       effect
//   confirmed in time                         hold::prolong().
//   confirmed after trust has ended           loss, and a late release.
//   error, or no reply                        retry after ttl / 30 (20 ms to 1 s). Trust runs on.
//   row locked, so it was skipped             the same.
//   revoked, at the hard limit, another term  loss.
//   the row has the hold's record             end, as released (holding/outcome.hpp).
//   the database's file was replaced          loss.
//
// - A renewal waits for half of the most urgent lock's trust, and reply_timeout at most. So there is time
//   for a second try.
// - A late release waits for no locked row, and never until a renewal becomes urgent.
// - The watchdog reports the losses.
// - After stop() nothing is renewed, and late releases are tried until a deadline.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/boot_waiter.hpp"
#include "holding/late_releases.hpp"
#include "holding/watchdog.hpp"
#include "sessions/connection_pool.hpp"
#include "strategy/catalogue.hpp"

namespace rowlock::holding {

/// The thread starts when it is first needed. Thread-safe.
class renewer {
 public:
  /// `pool`: lends a session if the server has none left. `close_unused`: closes idle sessions of other
  /// owners, and returns when the next can be due.
  renewer(sessions::database&, sessions::connection_pool& pool, strategies::catalogue const&, watchdog&,
          sessions::events const&, manager_options const&, std::function<boot_time_point()> close_unused);
  ~renewer() { stop(boot_clock::now(), {}); }

  void keep(std::shared_ptr<hold> const&);
  void forget(hold const&) noexcept;
  /// Tries until `until`. Without memory, the term ends by its expiry. `may_come_until`: until then a take in
  /// doubt might wait behind a locked row, so a missing term is looked for again.
  void give_back_later(std::string const& name, term_id const&, rowlock::strategy,
                       std::chrono::milliseconds at_least, boot_time_point until,
                       boot_time_point may_come_until = {}) noexcept;
  void give_back_later(hold const&) noexcept;

  /// Tries late releases until `deadline`. Does not wait for the thread `spare`.
  void stop(boot_time_point deadline, std::thread::id spare) noexcept;

 private:
  struct kept {
    std::shared_ptr<hold> what;
    boot_time_point next;
  };
  using batch = std::vector<std::shared_ptr<hold>>;

  void start();  ///< needs mutex_; not while `stopping_`
  void run(std::stop_token);
  bool nothing_left();
  boot_time_point stop_by();
  boot_time_point work();
  batch due(boot_time_point now);
  bool any_due(boot_time_point now) const;  ///< needs mutex_
  bool renewal_waits();
  boot_time_point next_work();
  boot_time_point close_own_unused();
  /// Reports the holds whose database is gone. @return the other holds
  batch still_there(batch const&);
  /// @return the holds that need a retry
  batch renew(batch const&);
  batch renew_in_parts(batch const& of_a_table);
  batch renew_part(batch const&);
  batch renew_on(backend::connection&, batch const&, boot_time_point deadline);
  /// Finds out why these were left out. @return those that are not lost
  batch settle(backend::connection&, batch const& unconfirmed, boot_time_point deadline);
  void remember_locked(std::shared_ptr<hold> const&);
  void ask_who_locks() noexcept;
  bool keep_its_record(backend::connection&, hold&, boot_time_point deadline);
  /// A program's transaction has recorded the work.
  void end_recorded(hold&) noexcept;
  void reschedule(batch const&, boot_time_point from, std::chrono::nanoseconds (*after)(hold const&));
  void give_back_due();
  std::vector<std::uint64_t> late_due();
  enum class tried { done, not_there, again, no_answer };
  tried try_late(late_release&) noexcept;
  tried give_back(late_release const&);
  boot_time_point late_deadline();
  void give_back_here(boot_time_point deadline) noexcept;
  backend::connection& connection(boot_time_point deadline);
  void failed(std::string_view what) noexcept;

  sessions::database& database_;
  sessions::connection_pool& pool_;
  watchdog& watchdog_;
  sessions::events const& events_;
  std::chrono::milliseconds const reply_timeout_;
  /// Of late releases: destructors wait for a call that is under way.
  std::chrono::milliseconds const release_timeout_;
  std::chrono::milliseconds const idle_timeout_;
  std::function<boot_time_point()> const close_unused_;
  strategies::term_tables const tables_;
  strategies::catalogue const& strategies_;

  base::boot_waiter waiter_;
  std::mutex mutex_;
  std::unordered_map<hold const*, kept> kept_;
  late_releases late_;
  boot_time_point armed_for_ = boot_time_point::max();
  boot_time_point stop_by_ = boot_time_point::max();

  // Used by the thread only.
  batch locked_;  ///< holds whose rows were locked twice in a row
  std::unique_ptr<backend::connection> connection_;
  boot_time_point used_;                                     ///< when connection_ was last used
  std::optional<sessions::connection_pool::loan> borrowed_;  ///< instead of connection_, for one round

  bool stopping_ = false;  ///< stop() joins the former thread
  bool closed_ = false;
  std::jthread thread_;
};

}  // namespace rowlock::holding
