#pragma once
// Whether somebody waits for a row, as the server tells: for cases in which something is to come meanwhile.

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "contract/databases.hpp"

namespace rowlock::test {

/// From now on the session waits for a row for longer than a second, for a busy machine may not be done with
/// what is to come meanwhile. In SQLite nobody can be told.
void be_patient(fixture&, backend::connection& waiter);

/// Sees on a session of its own how another session comes to wait for a row; that one is patient then.
class wait_view {
 public:
  wait_view(fixture&, backend::connection& waiter);
  /// Waits until it does. SQLite has nobody who could tell: until `thread` sleeps, the number of the one that
  /// is to wait for the file. False after a generous time.
  bool shows_it(std::atomic<int> const& thread);

 private:
  dialect engine_;
  std::unique_ptr<backend::connection> session_;
  std::string look_;     ///< PostgreSQL
  std::int64_t waiter_;  ///< InnoDB
};

/// Runs `call`, which uses `session`, in a thread of its own until the server shows that it waits for a row;
/// then `meanwhile`. Returns when both have ended.
void while_it_waits(fixture&, backend::connection& session, std::function<void()> const& call,
                    std::function<void()> const& meanwhile);

}  // namespace rowlock::test
