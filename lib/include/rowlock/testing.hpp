#pragma once
// For tests of programs that use rowlock, and for nothing else: faults of networks, servers and operators.
// Not in <rowlock/rowlock.hpp>. lib/doc/testing.md has examples.

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <memory>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
class held_lock;
class lock_manager;
}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

namespace rowlock::testing::inline ROWLOCK_ABI_NAMESPACE {

/// Statements of a manager, whatever the strategy.
enum class statement { take, renew, release };

/// Faults between managers and their database. Statements on the program's own connections do not pass here.
///
/// Copies share the faults. Thread safety: all members may be called from any thread.
class ROWLOCK_EXPORT faults {
 public:
  faults();

  /// `source` with these faults in between, for a lock_manager.
  [[nodiscard]] connection_source between(connection_source const& source) const;

  /// Makes the database unreachable: no connection can be made, and each open one ends at its next statement,
  /// which is not sent.
  void cut();
  /// Makes the database reachable again, and ends the faults below.
  void mend();

  /// The next such statement is not sent (errc::unreachable), and its connection ends.
  void refuse(statement which);
  /// The next such statement is applied, its reply is lost (errc::in_doubt), and its connection ends. The
  /// manager mostly finds out the outcome by another connection.
  void lose_reply(statement which);
  /// As lose_reply(), then cut(): the outcome stays unknown.
  void lose_reply_and_cut(statement which);

 private:
  class orders;
  std::shared_ptr<orders> orders_;
};

/// Takes the lock away from its holder as an operator does (lock_manager::revoke(), revoke_mode::now). On
/// return loss_token() is triggered, and loss() has the reason. Preconditions: `lock` is a lock of `manager`.
/// @throws error as revoke()
ROWLOCK_EXPORT void lose(lock_manager& manager, held_lock& lock);

}  // namespace rowlock::testing::inline ROWLOCK_ABI_NAMESPACE
