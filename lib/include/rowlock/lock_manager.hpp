#pragma once

#include <rowlock/connection_source.hpp>
#include <rowlock/export.hpp>
#include <rowlock/held_locks.hpp>
#include <rowlock/mutex.hpp>
#include <rowlock/options.hpp>
#include <rowlock/semaphore.hpp>
#include <rowlock/shared_mutex.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace rowlock::managing {
struct wait_policy;
}
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class quorum;

/// Makes mutexes on one database. Owns a few connections and the threads that renew.
///
/// After fork() the child's copy refuses everything with errc::forked, and its destructor does nothing. The
/// child makes a manager of its own.
///
/// Exception safety: a member that throws leaves the manager usable. If the error is errc::in_doubt, what was
/// asked for may have been done.
///
/// Thread safety: all members may be called from several threads at once. The destructor may run while calls
/// of other threads are under way; no call may begin after it has.
class ROWLOCK_EXPORT lock_manager {
 public:
  /// Every back end that was built, by URL: "sqlite:PATH[?synchronous=normal]", "postgresql://...",
  /// "postgres://..." or a libpq keyword string, "mysql://..." or "mariadb://...". In target
  /// rowlock::rowlock; without it this throws error(errc::unsupported) and says so. Does not connect yet.
  /// "sqlite::memory:", for tests of your own code, is a migrated database that is this manager's alone.
  /// @throws error(errc::invalid_argument) if the URL can't be used or an option is out of range
  explicit lock_manager(std::string_view url, manager_options options = {});
  /// One back end: lock_manager{rowlock::sqlite::source{path}}. Does not connect yet.
  /// @throws error(errc::invalid_argument) if an option is out of range
  explicit lock_manager(connection_source const& source, manager_options options = {});
  /// Gives back what is held, within manager_options::release_timeout. Calls of other threads that wait for
  /// one of its locks come back as cancelled. The manager's own callbacks, hook and retry policies may
  /// destroy it. A manager that is not destroyed is closed in the same way when the process ends by exit() or
  /// return from main.
  ~lock_manager();
  lock_manager(lock_manager const&) = delete;
  lock_manager& operator=(lock_manager const&) = delete;

  /// Optional: connects now and looks at the schema, so that a wrong URL or missing table is an error here
  /// and not at the first lock. @throws error
  void connect();

  /// @throws error(errc::invalid_argument) if the name is empty, longer than 255 bytes, not UTF-8, or
  /// contains U+0000, or an option is out of range; errc::unsupported if the back end has no such strategy.
  [[nodiscard]] mutex make_mutex(std::string name, mutex_options options = {});
  [[nodiscard]] recursive_mutex make_recursive_mutex(std::string name, mutex_options options = {});

  /// A lock for one that writes, or many that read. `options`: without a strategy, owner takes_over, and
  /// takeover::observed. @throws error as make_mutex()
  [[nodiscard]] shared_mutex make_shared_mutex(std::string name, mutex_options options = {});
  /// A lock that so many may hold at a time. `limit`: 1 to 2147483646; empty: the one that
  /// semaphore::set_limit() has set for the name. `options`: as for make_shared_mutex().
  /// @throws error as make_mutex()
  [[nodiscard]] semaphore make_semaphore(std::string name, std::optional<std::int64_t> limit,
                                         mutex_options options = {});

  /// Takes several names at once, all or none, in one attempt: if somebody has one of them, nothing is taken,
  /// and nothing of the others was touched. Each is taken with `options`, and has a term and a token of its
  /// own. For strategy lease.
  ///
  /// A row that somebody's transaction has locked is not waited for in the server; the attempt is repeated
  /// for a second, and is acquire_status::contended then. A retryable error is thrown, as by
  /// basic_mutex::try_acquire().
  /// @param names from 1 to 64 of them, none twice, in any order; each as for make_mutex()
  /// @param options of each of them
  /// @throws error(errc::invalid_argument) if there are none, more than 64, or one is there twice, and as
  /// make_mutex(); errc::unsupported with another strategy than lease; errc::strategy_mismatch if one of
  /// the names is in use with another; errc::would_deadlock if the calling thread holds one of them;
  /// errc::in_doubt if the reply was lost and the database can't be asked: what was granted ends by its
  /// expiry
  [[nodiscard]] acquisition_of_all try_acquire_all(std::vector<std::string> names,
                                                   mutex_options options = {});

  /// Waits until all of them are taken, or `stop` is triggered. It waits for the first name that somebody
  /// has, then tries all again, and holds none of them meanwhile: so two such calls never wait for each
  /// other. A set of names that others take in turn again and again, one by one, may wait for long. With
  /// mutex_options::fair it lines up at one of the names only.
  /// @throws error as try_acquire_all(), and as basic_mutex says: retryable errors are ridden out
  [[nodiscard]] acquisition_of_all acquire_all(std::vector<std::string> names, mutex_options options = {},
                                               std::stop_token stop = {});

  /// As acquire_all(), but waits at most `timeout` (an attempt is made even if it is zero or less), plus
  /// manager_options::reply_timeout if the database does not answer.
  [[nodiscard]] acquisition_of_all try_acquire_all_for(std::vector<std::string> names,
                                                       std::chrono::nanoseconds timeout,
                                                       mutex_options options = {}, std::stop_token stop = {});
  template <class Rep, class Period>
  [[nodiscard]] acquisition_of_all try_acquire_all_for(std::vector<std::string> names,
                                                       std::chrono::duration<Rep, Period> const& timeout,
                                                       mutex_options options = {},
                                                       std::stop_token stop = {}) {
    return try_acquire_all_for(std::move(names), saturated_nanoseconds(timeout), std::move(options),
                               std::move(stop));
  }

  /// The held locks, or also idle rows, ordered by name (bytewise), and who waits for them, where the
  /// database tells. A row that can't be read is among them, with lock_info::unknown. A note, or another
  /// text, that is longer than rowlock writes it is cut. @throws error
  [[nodiscard]] std::vector<lock_info> list(list_options const& options = {});

  /// The state of one name, found by its key. Also finds an idle row and one that can't be read, in the form
  /// that list() has. Empty if there is no row. @throws error
  [[nodiscard]] std::optional<lock_info> find(std::string const& name);

  /// Gives back a lock that transaction::insert() took, once its transaction was committed, or that
  /// held_lock::detach() left. Any process may do so. One round trip.
  /// @return false if the term is not there any more: it has expired and somebody took the name, or its
  /// transaction was rolled back
  /// @throws error(errc::row_locked) if a transaction has the row locked
  [[nodiscard]] bool release(detached_lock const& lock);

  /// Makes the term of such a lock last its ttl from now on; never shortens it. One round trip, two if it
  /// fails. @return false if the term is not there any more, is to be given back (revoked), or has reached
  /// its hard limit
  /// @throws error(errc::row_locked) if a transaction has the row locked: the term is as it was, and a retry
  /// helps
  [[nodiscard]] bool renew(detached_lock const& lock);

  /// Takes a lock away from its holder; of a shared_mutex or semaphore from all of them, or, with `only`,
  /// from the one whose term that is (lock_info::term). A name that is recorded as done is forgotten at once.
  /// @return false if nobody holds it. @throws error; errc::unsupported if the name is used with row_lock
  [[nodiscard]] bool revoke(std::string const& name, revoke_mode, term_id const& only = {});

 private:
  friend class basic_transaction;
  friend class quorum;
  acquisition_of_all acquire_all(std::vector<std::string>, mutex_options, managing::wait_policy const&,
                                 std::stop_token);
  std::shared_ptr<managing::manager> manager_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
