#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/connection_source.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/held_locks.hpp>
#include <rowlock/mutex.hpp>
#include <rowlock/options.hpp>
#include <rowlock/semaphore.hpp>
#include <rowlock/shared_mutex.hpp>

#include <chrono>
#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rowlock::managing {
class member;
struct wait_policy;
}  // namespace rowlock::managing
namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Makes mutexes on one database. Owns some connections, and the threads that renew.
///
/// After fork() the child's copy refuses all calls with errc::forked, and its destructor does nothing. Make
/// another manager in the child.
///
/// Exception safety: the manager stays usable. After errc::in_doubt the call can have been applied.
///
/// Thread safety: all members may be called concurrently. The destructor may overlap with calls of other
/// threads that began before it.
class ROWLOCK_EXPORT lock_manager {
 public:
  /// Any back end that was built, by URL: "sqlite:PATH[?synchronous=full]", "postgresql://...",
  /// "postgres://..." or a libpq keyword string, "mysql://..." or "mariadb://...". Needs target
  /// rowlock::rowlock, or throws error(errc::unsupported). "sqlite::memory:", for tests of your own code, is
  /// a migrated database of this manager alone. Does not connect yet.
  /// @throws error(errc::invalid_argument) if the URL can't be used or an option is out of range
  explicit lock_manager(std::string_view url, manager_options options = {});
  /// One back end: lock_manager{rowlock::sqlite::source{path}}. Does not connect yet.
  /// @throws error(errc::invalid_argument) if an option is out of range
  explicit lock_manager(connection_source const& source, manager_options options = {});
  /// Releases all held locks, within manager_options::release_timeout. Waiting calls of other threads return
  /// cancelled. The manager's own callbacks, hook and retry policies may destroy it. exit() and the return
  /// from main close a manager in the same way.
  ~lock_manager();
  lock_manager(lock_manager const&) = delete;
  lock_manager& operator=(lock_manager const&) = delete;

  /// Optional: connects and checks the schema now, so that a wrong URL or missing table is an error here.
  /// @throws error
  void connect();

  /// @throws error
  /// - errc::invalid_argument: the name is empty, longer than 255 bytes, not UTF-8, or contains U+0000, or an
  ///   option is out of range.
  /// - errc::unsupported: the back end has no such strategy.
  [[nodiscard]] mutex make_mutex(std::string name, mutex_options options = {});
  [[nodiscard]] recursive_mutex make_recursive_mutex(std::string name, mutex_options options = {});

  /// A lock for one writer or many readers. `options` must not have a strategy, owner takes_over or
  /// takeover::observed. @throws error as make_mutex()
  [[nodiscard]] shared_mutex make_shared_mutex(std::string name, mutex_options options = {});
  /// A lock that `limit` holders of one unit may have at a time: 1 to 2147483646, or empty for the limit of
  /// semaphore::set_limit(). `options` as for make_shared_mutex(). @throws error as make_mutex()
  [[nodiscard]] semaphore make_semaphore(std::string name, std::optional<std::int64_t> limit,
                                         mutex_options options = {});

  /// Takes all of several names or none, in one attempt of strategy lease. If one name is busy, no other name
  /// is touched.
  ///
  /// If a transaction has a row locked, the attempt is repeated for a second, and then returns
  /// acquire_status::contended. Retryable errors are thrown, as by basic_mutex::try_acquire().
  /// @param names 1 to 64 different names, in any order
  /// @param options of each of them
  /// @throws error as make_mutex(), and
  /// - errc::invalid_argument: no names, more than 64, or a name twice.
  /// - errc::unsupported: another strategy than lease.
  /// - errc::strategy_mismatch: a name is in use with another strategy.
  /// - errc::would_deadlock: the calling thread holds one of them.
  /// - errc::in_doubt: the reply was lost and the database can't be asked. Grants end by their expiry.
  [[nodiscard]] acquisition_of_all try_acquire_all(std::vector<std::string> names,
                                                   mutex_options options = {});

  /// Waits until all names are taken, or `stop` is triggered. Waits for the first busy name, then tries all
  /// again, and holds none meanwhile, so two such calls never wait for each other. A set of names that other
  /// owners take in turn, one by one, can be busy for long. With mutex_options::fair it queues for one of the
  /// names only.
  /// @throws error as try_acquire_all(), but rides out retryable errors as basic_mutex
  [[nodiscard]] acquisition_of_all acquire_all(std::vector<std::string> names, mutex_options options = {},
                                               std::stop_token stop = {});

  /// As acquire_all(), with a `timeout` as for basic_mutex::try_acquire_for().
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

  /// As acquire_all(), but returns at once, and `where` calls `handler(std::exception_ptr,
  /// acquisition_of_all)` with what acquire_all() would throw or return. What basic_mutex::async_acquire()
  /// says of the call holds here, too.
  template <std::invocable<std::exception_ptr, acquisition_of_all> Handler>
  void async_acquire_all(std::vector<std::string> const& names, mutex_options const& options,
                         executor const& where, Handler handler, std::stop_token stop = {}) {
    async_all(names, options, {})(where, async_handler<acquisition_of_all>::of(std::move(handler)),
                                  std::move(stop));
  }
  /// The same, to be awaited by a coroutine. Temporaries are refused: g++ 12 destroys some of them twice.
  async_result<acquisition_of_all> async_acquire_all(
      std::reference_wrapper<std::vector<std::string> const> names,
      std::reference_wrapper<mutex_options const> options, std::reference_wrapper<executor const> where,
      std::stop_token stop = {});
  /// The same with a completion token of Asio's: see basic_mutex::async_acquire().
  template <completion_token Token, class Asio>
  auto async_acquire_all(std::reference_wrapper<std::vector<std::string> const> names,
                         std::reference_wrapper<mutex_options const> options, Token&& token);
  /// As try_acquire_all_for(), asynchronously. `timeout` counts from the call.
  template <std::invocable<std::exception_ptr, acquisition_of_all> Handler>
  void async_acquire_all_for(std::vector<std::string> const& names, std::chrono::nanoseconds timeout,
                             mutex_options const& options, executor const& where, Handler handler,
                             std::stop_token stop = {}) {
    async_all(names, options, {.timeout = timeout})(
        where, async_handler<acquisition_of_all>::of(std::move(handler)), std::move(stop));
  }
  async_result<acquisition_of_all> async_acquire_all_for(
      std::reference_wrapper<std::vector<std::string> const> names, std::chrono::nanoseconds timeout,
      std::reference_wrapper<mutex_options const> options, std::reference_wrapper<executor const> where,
      std::stop_token stop = {});
  template <completion_token Token, class Asio>
  auto async_acquire_all_for(std::reference_wrapper<std::vector<std::string> const> names,
                             std::chrono::nanoseconds timeout,
                             std::reference_wrapper<mutex_options const> options, Token&& token);
  /// As try_acquire_all(), asynchronously.
  template <std::invocable<std::exception_ptr, acquisition_of_all> Handler>
  void async_try_acquire_all(std::vector<std::string> const& names, mutex_options const& options,
                             executor const& where, Handler handler) {
    async_all(names, options, {.one_attempt = true})(
        where, async_handler<acquisition_of_all>::of(std::move(handler)), {});
  }
  async_result<acquisition_of_all> async_try_acquire_all(
      std::reference_wrapper<std::vector<std::string> const> names,
      std::reference_wrapper<mutex_options const> options, std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_try_acquire_all(std::reference_wrapper<std::vector<std::string> const> names,
                             std::reference_wrapper<mutex_options const> options, Token&& token);

  /// Ends the manager as the destructor does, but returns at once. `where` calls `handler(std::exception_ptr,
  /// bool)` at its end, without an exception: false if calls still waited for the database after
  /// manager_options::release_timeout. Then they end on threads of the library. The destructor does not wait
  /// from then on, and may run in the handler.
  /// @throws error(errc::closed) on a second call; errc::forked, std::system_error, std::bad_alloc
  template <std::invocable<std::exception_ptr, bool> Handler>
  void async_close(executor const& where, Handler handler) {
    close_with(where, async_handler<bool>::of(std::move(handler)));
  }
  async_result<bool> async_close(std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_close(Token&& token);

  /// The locks, ordered by name (bytewise), with their waiters if the database knows them. A row that can't
  /// be read has lock_info::unknown. Overlong texts are cut. @throws error
  [[nodiscard]] std::vector<lock_info> list(list_options const& options = {});

  /// The state of one name, as in list(), also if its row is idle or can't be read. Empty if there is no row.
  /// @throws error
  [[nodiscard]] std::optional<lock_info> find(std::string const& name);

  /// Releases a lock of a committed transaction::insert(), or of held_lock::detach(). Any process may do so.
  /// One round trip.
  /// @return false if the term no longer exists. Another owner took the expired name, or the transaction was
  /// rolled back
  /// @throws error(errc::row_locked) if a transaction has the row locked
  [[nodiscard]] bool release(detached_lock const& lock);

  /// Makes the term of such a lock last its ttl from now, and never shortens it. One round trip, or two after
  /// a failure. @return false if the term no longer exists, was revoked, or has reached its hard limit
  /// @throws error(errc::row_locked) if a transaction has the row locked: the term is as it was. Try again.
  [[nodiscard]] bool renew(detached_lock const& lock);

  /// Takes a lock away from its holder. For a shared_mutex or semaphore: from all holders, or only from that
  /// with term `only` (lock_info::term). Deletes the record of a name that is done.
  /// @return false if there is no holder. @throws error; errc::unsupported if the name is used with row_lock
  [[nodiscard]] bool revoke(std::string const& name, revoke_mode, term_id const& only = {});

 private:
  friend class basic_transaction;
  friend class election;
  friend class managing::member;
  acquisition_of_all acquire_all(std::vector<std::string>, mutex_options, managing::wait_policy const&,
                                 std::stop_token);
  async_start<acquisition_of_all> async_all(std::vector<std::string> const& names, mutex_options const&,
                                            async_wait) const;
  void close_with(executor, std::unique_ptr<async_handler<bool>>);
  std::shared_ptr<managing::manager> manager_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
