#pragma once

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

/// A manager's sessions, lent to one call after another: at most `limit`, opened when first needed, and
/// closed after `idle_timeout`. Callers wait for a session in order. Thread-safe.
class connection_pool {
  struct turn {
    boot_time_point began;
    std::stop_source give_way;
  };

 public:
  /// The time for which a borrower may only wait for a row, while other callers wait for a session.
  static constexpr std::chrono::milliseconds longest_turn{1000};

  struct size {
    int limit;
    char const* option;  ///< of manager_options, which sets `limit`; for messages
    std::size_t spare;   ///< idle sessions that stay
    std::chrono::nanoseconds idle_timeout;
  };

  connection_pool(database&, size const&);

  /// A session for one caller. The destructor gives it back, or drops it if it broke.
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

  /// A writing session can meet locks of other sessions.
  enum class use { any, writing };

  /// `place_by`: the end of the wait for a session; the rest of `deadline` is for connecting. @throws error
  /// as database::open; too_many_connections if none became free in time, or before `stop` was triggered;
  /// row_locked, for writing, after locked_out()
  loan borrow(boot_time_point deadline, std::stop_token const& stop = {},
              boot_time_point place_by = boot_time_point::max(), use = use::any);

  /// Reports that a session waited in vain for a lock of a session outside this pool. Where writing locks the
  /// whole database, callers that waited here to write need not try one by one.
  void locked_out() noexcept;

  /// Closes sessions after their idle timeout. @return the time to call it again
  boot_time_point close_unused() noexcept;

  /// Closes the idle sessions, and from now on each that comes back.
  void close() noexcept;

  /// While it lives, the borrower only waits. `give_way` is triggered when other callers wait for a session
  /// and the turn is over. Then the borrower should give its session back, and borrow again.
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
  std::vector<idle_session> idle_;  ///< the last used is used next, so the first are idle the longest
  int lent_ = 0;
  bool closed_ = false;
};

}  // namespace rowlock::sessions
