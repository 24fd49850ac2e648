#pragma once
// Renews what is held, many in one statement, on a connection of its own; and gives back later what
// could not be given back at once. Nothing that goes wrong here ends the thread.

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

/// One thread, started when first needed. Thread-safe.
class renewer {
 public:
  /// `pool`: where a session is borrowed while the server has none left for the renewer's own.
  /// `close_unused`: called whenever the thread runs; ends sessions of others that nobody has used for long.
  /// Returns when there may be the next one.
  renewer(sessions::database&, sessions::connection_pool& pool, strategies::catalogue const&, watchdog&,
          sessions::events const&, manager_options const&, std::function<boot_time_point()> close_unused);
  ~renewer() { stop(boot_clock::now(), {}); }

  void keep(std::shared_ptr<hold> const&);
  void forget(hold const&) noexcept;
  /// Tried until `until`. If there is no memory for it, the term ends by its expiry. `may_come_until`: of a
  /// doubtful take, which may stand in the server behind a locked row; what is not there before is looked for
  /// again, behind what was held and came first of its name, and where there are very many of a name, no more
  /// are taken on.
  void give_back_later(std::string const& name, term_id const&, rowlock::strategy,
                       std::chrono::milliseconds at_least, boot_time_point until,
                       boot_time_point may_come_until = {}) noexcept;
  /// What is left of it.
  void give_back_later(hold const&) noexcept;

  /// Nothing is renewed from now on. Ends the thread; what is still to be given back is tried until
  /// `deadline`. Does not wait for the thread `spare`, which is told to end all the same.
  void stop(boot_time_point deadline, std::thread::id spare) noexcept;

 private:
  struct kept {
    std::shared_ptr<hold> what;
    boot_time_point next;  ///< when it is to be renewed
  };
  using batch = std::vector<std::shared_ptr<hold>>;

  void start();  ///< with the mutex; not while a former thread still ends
  void run(std::stop_token);
  bool nothing_left();
  boot_time_point stop_by();
  boot_time_point work();
  batch due(boot_time_point now);
  bool any_due(boot_time_point now) const;  ///< with the mutex
  bool renewal_waits();
  boot_time_point next_work();
  boot_time_point close_own_unused();
  /// Reports those whose database is gone. @return the others
  batch still_there(batch const&);
  /// @return those that have to be tried again soon
  batch renew(batch const&);
  batch renew_in_parts(batch const& of_a_table);
  batch renew_part(batch const&);
  batch renew_on(backend::connection&, batch const&, boot_time_point deadline);
  /// Finds out what became of those that a renewal left out. @return those that are not lost
  batch settle(backend::connection&, batch const& unconfirmed, boot_time_point deadline);
  void remember_locked(std::shared_ptr<hold> const&);
  void ask_who_locks() noexcept;
  bool keep_its_record(backend::connection&, hold&, boot_time_point deadline);
  /// A transaction of the program's has recorded that it is done.
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
  /// For what is given back late: destructors wait for a call that is under way.
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

  batch locked_;  ///< whose rows others have locked for some time; the thread's own, as these:
  std::unique_ptr<backend::connection> connection_;          ///< the thread's own
  boot_time_point used_;                                     ///< that it was last
  std::optional<sessions::connection_pool::loan> borrowed_;  ///< instead of it, for one round of work
  bool stopping_ = false;                                    ///< a former thread still ends
  bool closed_ = false;
  std::jthread thread_;
};

}  // namespace rowlock::holding
