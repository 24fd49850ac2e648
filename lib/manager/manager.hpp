#pragma once
#include <functional>
#include <memory>
#include <rowlock/types.hpp>
#include <unordered_map>
#include <vector>

#include "manager/async_waits.hpp"
#include "manager/closer.hpp"
#include "manager/dispatcher.hpp"
#include "manager/engine.hpp"
#include "manager/lock_call.hpp"

namespace rowlock::managing {

/// Shared by a lock_manager, its mutexes and its handles, which can outlive the lock_manager. Thread-safe. In
/// a forked child calls throw error(errc::forked), and releases return already_lost.
class manager : public std::enable_shared_from_this<manager> {
 public:
  static std::shared_ptr<manager> make(std::shared_ptr<backend::source> const&, manager_options);
  /// In a forked child all parts leak: they are the parent's.
  ~manager();
  manager(manager const&) = delete;
  manager& operator=(manager const&) = delete;

  lock_spec spec(std::string name, mutex_options, bool recursive, std::optional<permit_spec> permit = {},
                 bool votes = false) const;
  /// In the order of the names. @throws error as lock_spec, and for no names, too many, or one twice
  std::vector<lock_spec> specs(std::vector<std::string> names, mutex_options const&) const;
  void connect();
  struct one_taken {
    std::shared_ptr<holding::hold> won{};
    acquire_status why = acquire_status::acquired;
    std::optional<holder_info> holder{};
  };
  one_taken acquire(lock_spec const&, wait_policy, std::stop_token);
  taken acquire_all(std::span<lock_spec const>, wait_policy const&, std::stop_token);
  /// Returns at once. The result goes to the receiver by the executor, or both are destroyed.
  /// @throws error(errc::closed), errc::forked, std::system_error
  void acquire_later(std::vector<lock_spec>, wait_policy, std::stop_token, executor,
                     std::unique_ptr<receiver>);
  /// As wait_until_free(), and returns at once. @throws as acquire_later()
  void wait_until_free_later(lock_spec const&, std::optional<std::chrono::steady_clock::time_point> deadline,
                             std::stop_token, executor, std::unique_ptr<async_handler<bool>>);
  /// Waits for that time. The handler gets false if it was stopped. @throws as acquire_later()
  void pause_later(boot_time_point until, std::stop_token, executor, std::unique_ptr<async_handler<bool>>);
  using loss_handler = async_handler<std::optional<loss_reason>>;
  /// Waits until the lock has ended, and returns at once. @throws as acquire_later()
  void wait_for_end_later(std::shared_ptr<holding::hold> const&, std::stop_token, executor,
                          std::unique_ptr<loss_handler>);
  /// Has another thread call `what`, which asks the database. @throws as acquire_later()
  template <class Result>
  void ask_later(executor where, std::unique_ptr<async_handler<Result>> whom, std::function<Result()> what,
                 bool releases = false) {
    refuse_if_ended();
    auto answer = std::make_unique<answer_for<Result>>(shared_from_this(), std::move(where), std::move(whom));
    auto const asks = [to = answer.get(), what = std::move(what)] {
      try {
        to->bring(nullptr, what());
      } catch (...) {
        to->bring(std::current_exception(), {});
      }
    };
    dispatcher_->run(asks, std::move(answer), releases);
  }
  bool extend(std::shared_ptr<holding::hold> const&, std::chrono::milliseconds);
  bool set_note(std::shared_ptr<holding::hold> const&, std::string const& note);
  /// Ends the lock by the record that its work is done. @return false if lost before
  bool record(std::shared_ptr<holding::hold> const&, std::chrono::milliseconds keep_for,
              std::string const& result);
  /// Whether a transaction of the program has recorded that. If so, ends the lock.
  bool was_recorded(std::shared_ptr<holding::hold> const&);
  release_result release(std::shared_ptr<holding::hold> const&) noexcept;
  /// Returns at once. Until the database has answered, no other call of this process gets the name.
  void release_later(std::shared_ptr<holding::hold> const&) noexcept;
  void release_later(std::vector<std::shared_ptr<holding::hold>>) noexcept;
  /// @return the result of the first lock that was not released
  release_result release_all(std::vector<std::shared_ptr<holding::hold>>) noexcept;
  std::optional<detached_lock> detach(std::shared_ptr<holding::hold> const&);
  std::vector<lock_info> list(list_options const&);
  std::optional<lock_info> find(std::string const& name);
  bool wait_until_free(lock_spec const&, std::optional<std::chrono::steady_clock::time_point> deadline,
                       std::stop_token);
  bool revoke(std::string const& name, revoke_mode, term_id const& only);
  /// Exchanges a held permit for a new term with other units.
  /// @return null if other holders are in the way, or the permit is lost. Then nothing was changed
  std::shared_ptr<holding::hold> exchange(std::shared_ptr<holding::hold> const&, permit_spec const&);
  void set_limit(lock_spec const&, std::int64_t limit);
  /// Empty: no limit is known.
  std::optional<std::int64_t> free_units(lock_spec const&);
  bool release(detached_lock const&);
  bool renew(detached_lock const&);
  void refuse_if_forked() const;
  /// For the folders above.
  dispatcher& asynchronous() noexcept { return *dispatcher_; }
  engine& parts() const noexcept { return *engine_; }

  /// Has the closer end all waits, release all locks and end the threads. Waits for that, for release_timeout
  /// at most (reply_timeout longer if the source uses objects of the program), but never for the calling
  /// thread. Mutexes and handles remain usable: attempts end as cancelled.
  void close() noexcept;
  /// Has the closer do that, and returns at once. The handler gets whether no call is left.
  /// @throws error(errc::closed) if another call did so before, errc::forked, std::system_error
  void close_later(executor, std::unique_ptr<async_handler<bool>>);

  /// For lock(), after a cancelled attempt. @throws error(errc::closed), after a while: an uncaught exception
  /// would end a closing process too early
  [[noreturn]] void say_closed() const;
  /// @throws error(errc::closed) if the lock_manager has ended, except while the process ends (say_closed())
  void refuse_if_ended() const;

  /// For the closer: shut_down(), within the deadline, then finish().
  void shut_down() noexcept;
  void finish() noexcept;
  closing& its_closing() noexcept { return closing_; }

 private:
  manager(std::shared_ptr<backend::source> const&, manager_options);
  void refuse_if_closed() const;
  taken dispatched(lock_spec const&, wait_policy const&, std::stop_token);
  /// Counts the call while the result lives. @throws error as refuse_if_closed()
  base::calls::scope begin_call() const;
  void end_threads(boot_time_point deadline, std::thread::id spare) noexcept;
  void end_sessions() noexcept;
  void tell_closed(bool all_left) noexcept;
  int never_leave() const noexcept;
  /// @return false, with the result in `what`, if the closer releases the lock
  bool can_release(release_result& what) const noexcept;
  void flush();
  bool forked() const noexcept { return epoch_ != base::fork_epoch(); }
  bool extend_row(std::shared_ptr<holding::hold> const&, std::chrono::milliseconds, boot_time_point deadline);
  bool set_row_note(std::shared_ptr<holding::hold> const&, std::string const& note);
  bool report_if_gone(std::shared_ptr<holding::hold> const&);

  unsigned const epoch_ = base::fork_epoch();
  std::unique_ptr<engine> engine_;
  std::unique_ptr<dispatcher> dispatcher_;
  bool const source_is_the_programs_;
  closing closing_;
  std::unique_ptr<answer_for<bool>> to_tell_;  ///< at the end. Set before it is asked for
};

}  // namespace rowlock::managing
