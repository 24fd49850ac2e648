#pragma once
// The sessions that are kept, and lent to one call after the other.

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <rowlock/types.hpp>
#include <stop_token>
#include <vector>

#include "sessions/database.hpp"

namespace rowlock::sessions {

/// At most `limit` sessions, opened when first needed, and closed when nobody has used them for a while.
/// Whoever waits for one stands in line. Thread-safe.
class connection_pool {
  struct turn {
    boot_time_point began;
    std::stop_source give_way;
  };

 public:
  /// How long a session that only waits for a row is left to its borrower while others stand in line.
  static constexpr std::chrono::milliseconds longest_turn{1000};

  /// How many there are, and how long they stay.
  struct size {
    int limit;
    char const* option;  ///< of manager_options, which says how many; for messages
    std::size_t spare;   ///< so many stay however long nobody has used them
    std::chrono::nanoseconds idle_timeout;
  };

  connection_pool(database&, size const&);

  /// A session for one caller, given back when destroyed, or dropped if it broke.
  class loan {
   public:
    loan(connection_pool& p, std::unique_ptr<backend::connection> c) noexcept
        : pool_(&p), connection_(std::move(c)) {}
    loan(loan&&) noexcept = default;
    loan& operator=(loan&&) = delete;
    ~loan() {
      if (pool_ != nullptr) pool_->give_back(std::move(connection_));
    }
    backend::connection& operator*() const noexcept { return *connection_; }
    backend::connection* operator->() const noexcept { return connection_.get(); }
    explicit operator bool() const noexcept { return connection_ != nullptr; }  ///< not moved from

   private:
    struct no_owner {
      void operator()(connection_pool*) const noexcept {}
    };
    std::unique_ptr<connection_pool, no_owner> pool_;
    std::unique_ptr<backend::connection> connection_;
  };

  /// What a session is for. One that writes may meet what other sessions have locked.
  enum class use { any, writing };

  /// `place_by`: until when it stands in line at most; the rest of `deadline` is for connecting.
  /// @throws error what database::open throws; too_many_connections if none became free in time, or until
  /// `stop` was triggered; row_locked, for writing, if that is because of what locked_out() tells
  loan borrow(boot_time_point deadline, std::stop_token const& stop = {},
              boot_time_point place_by = boot_time_point::max(), use = use::any);

  /// A session has waited in vain for what another session, not of this pool, has locked. Those that stood in
  /// line meanwhile, to write, have waited for the same where writing locks the whole database: they need not
  /// try one after the other.
  void locked_out() noexcept;

  /// Ends those that nobody has used for the idle timeout. @return when there may be the next one
  boot_time_point close_unused() noexcept;

  /// Ends the idle sessions, and from now on each that comes back.
  void close() noexcept;

  /// While it lives, its borrower only waits: `give_way` is triggered when others stand in line for a session
  /// and the turn is over. Then the borrower should give its session back, and line up again.
  class waiting {
   public:
    waiting(connection_pool&, std::stop_source give_way);
    ~waiting();
    waiting(waiting const&) = delete;
    waiting& operator=(waiting const&) = delete;

   private:
    connection_pool& pool_;
    std::list<turn>::iterator place_;
  };

 private:
  struct waiter {
    use what;
    bool has_place = false;
    bool locked_out = false;
    std::condition_variable_any wake{};
  };
  void line_up(boot_time_point until, std::stop_token const&, use);
  boot_time_point ask_for_one();
  void next_in_line() noexcept;
  void give_back(std::unique_ptr<backend::connection>) noexcept;
  void drop_idle() noexcept;

  struct idle_session {
    std::unique_ptr<backend::connection> connection;
    boot_time_point since;
  };

  database& database_;
  size const size_;
  std::mutex mutex_;
  std::list<waiter*> line_;
  std::list<turn> turns_;           ///< the oldest first
  std::vector<idle_session> idle_;  ///< who was used last is used next, so the first are idle the longest
  int lent_ = 0;
  bool closed_ = false;
};

}  // namespace rowlock::sessions
