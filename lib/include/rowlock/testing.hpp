#pragma once
// For tests of programs that use rowlock: what a network, a server and an operator do to them. Not for
// anything else. Not in <rowlock/rowlock.hpp>. lib/doc/testing.md has examples.

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>

#include <memory>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {
class held_lock;
class lock_manager;
}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

namespace rowlock::testing::inline ROWLOCK_ABI_NAMESPACE {

/// Which of a manager's statements, whatever the strategy.
enum class statement { take, renew, release };

/// Faults between managers and their database. What the program sends on a connection of its own does not
/// pass here.
///
/// Copies share the faults. Thread safety: all members may be called from any thread.
class ROWLOCK_EXPORT faults {
 public:
  faults();

  /// That source with these faults in between: for a lock_manager.
  [[nodiscard]] connection_source between(connection_source const& source) const;

  /// The database is unreachable from now on: no connection can be made, and each that is there ends at its
  /// next statement, which is not sent.
  void cut();
  /// It can be reached again. Nothing more is to be done by the calls below.
  void mend();

  /// The next such statement is not sent (errc::unreachable), and its connection ends.
  void refuse(statement which);
  /// The next such statement is applied, its reply is lost (errc::in_doubt), and its connection ends. The
  /// manager mostly finds out by another connection what became of it.
  void lose_reply(statement which);
  /// The same, and then cut(): nobody can find out.
  void lose_reply_and_cut(statement which);

 private:
  class orders;
  std::shared_ptr<orders> orders_;
};

/// The lock is taken away from its holder as by an operator (lock_manager::revoke(), revoke_mode::now), and
/// the holder hears of it before this returns: loss_token() is triggered, loss() says why. Preconditions:
/// `lock` is a lock of `manager`. @throws error as revoke()
ROWLOCK_EXPORT void lose(lock_manager& manager, held_lock& lock);

}  // namespace rowlock::testing::inline ROWLOCK_ABI_NAMESPACE
