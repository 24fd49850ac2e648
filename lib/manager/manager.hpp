#pragma once
// What a lock_manager, its mutexes and its handles share. Outlives the lock_manager as long as a handle is
// left.

#include <memory>
#include <rowlock/types.hpp>
#include <unordered_map>
#include <vector>

#include "manager/closer.hpp"
#include "manager/engine.hpp"
#include "manager/lock_call.hpp"

namespace rowlock::managing {

class manager : public std::enable_shared_from_this<manager> {
 public:
  static std::shared_ptr<manager> make(std::shared_ptr<backend::source> const&, manager_options);
  /// In a forked child everything is left as it is: threads and sessions are the parent's.
  ~manager();
  manager(manager const&) = delete;
  manager& operator=(manager const&) = delete;

  lock_spec spec(std::string name, mutex_options, bool recursive, std::optional<permit_spec> permit = {},
                 std::optional<strategies::wanted_vote> vote = {}) const;
  /// For locks that are taken together: in the order of the names. @throws error as lock_spec, and if there
  /// are none, too many, or two of one name
  std::vector<lock_spec> specs(std::vector<std::string> names, mutex_options const&) const;
  void connect();
  /// What a call for one name has come to.
  struct one_taken {
    std::shared_ptr<holding::hold> won{};  ///< null: see why
    acquire_status why = acquire_status::acquired;
    std::optional<holder_info> holder{};
  };
  one_taken acquire(lock_spec const&, wait_policy, std::stop_token);
  taken acquire_all(std::span<lock_spec const>, wait_policy const&, std::stop_token);
  bool extend(std::shared_ptr<holding::hold> const&, std::chrono::milliseconds);
  bool set_note(std::shared_ptr<holding::hold> const&, std::string const& note);
  /// Ends it by the record that its work is done. @return false if it was lost before
  bool record(std::shared_ptr<holding::hold> const&, std::chrono::milliseconds keep_for,
              std::string const& result);
  /// Whether a transaction of the program's has recorded it; if so, it is ended.
  bool was_recorded(std::shared_ptr<holding::hold> const&);
  release_result release(std::shared_ptr<holding::hold> const&) noexcept;
  /// @return what became of the first that was not released
  release_result release_all(std::vector<std::shared_ptr<holding::hold>>) noexcept;
  std::optional<detached_lock> detach(std::shared_ptr<holding::hold> const&);
  std::vector<lock_info> list(list_options const&);
  std::optional<lock_info> find(std::string const& name);
  /// See basic_mutex::wait_until_free_for().
  bool wait_until_free(lock_spec const&, std::optional<std::chrono::steady_clock::time_point> deadline,
                       std::stop_token);
  bool revoke(std::string const& name, revoke_mode, term_id const& only);
  /// Of a permit that is held: the same with other units, as a term of its own. The one that was held ends.
  /// @return null if others are in the way, or it is lost; then nothing was done
  std::shared_ptr<holding::hold> exchange(std::shared_ptr<holding::hold> const&, permit_spec const&);
  /// The limit for all who name none.
  void set_limit(lock_spec const&, std::int64_t limit);
  /// How many units can be had, by `limit` if there is one; empty: no limit is known.
  std::optional<std::int64_t> free_units(lock_spec const&);
  bool release(detached_lock const&);
  bool renew(detached_lock const&);
  void refuse_if_forked() const;
  /// For what works beside the manager, on its sessions: lib/guard.
  engine& parts() const noexcept { return *engine_; }

  /// Has it closed by the closer: nobody waits any more, nothing is taken any more, what is held is given
  /// back. Waits for that, and for the threads, for release_timeout at most (and a last reply_timeout, if the
  /// source uses objects of the program's); never for the calling thread itself. Mutexes and handles that
  /// share the manager may still be used: attempts come back as cancelled.
  void close() noexcept;

  /// For lock(), whose attempt came back as cancelled. @throws error(errc::closed), but not at once: at the
  /// end of the process an exception that nobody catches would end it before its time
  [[noreturn]] void say_closed() const;
  /// For a call that begins; while the process ends, say_closed() does it with its delay.
  /// @throws error(errc::closed) if the lock_manager has ended
  void refuse_if_ended() const;

  /// What the closer does: first what others wait for, and then what is left.
  void shut_down() noexcept;
  void finish() noexcept;
  closing& its_closing() noexcept { return closing_; }

 private:
  manager(std::shared_ptr<backend::source> const&, manager_options);
  void refuse_if_closed() const;
  void tell_refused(std::string_view name, std::string_view label, acquire_status why,
                    boot_time_point began) const noexcept;
  /// Refuses too, and counts the call as long as it lives.
  base::calls::scope begin_call() const;
  void end_threads(boot_time_point deadline, std::thread::id spare) noexcept;
  void end_sessions() noexcept;
  int never_leave() const noexcept;
  /// Whether a lock can be given back now; if not, `what` came of it, or comes.
  bool can_release(release_result& what) const noexcept;
  bool forked() const noexcept { return epoch_ != base::fork_epoch(); }
  bool extend_row(std::shared_ptr<holding::hold> const&, std::chrono::milliseconds, boot_time_point deadline);
  bool set_row_note(std::shared_ptr<holding::hold> const&, std::string const& note);
  /// Whether the database that it is held in is gone, and the lock lost with it.
  bool report_if_gone(std::shared_ptr<holding::hold> const&);

  unsigned const epoch_ = base::fork_epoch();
  std::unique_ptr<engine> engine_;
  bool const source_is_the_programs_;
  closing closing_;
};

}  // namespace rowlock::managing
