#pragma once
// How a lock that this manager holds, or has lost, is given back.

#include <memory>
#include <optional>
#include <rowlock/types.hpp>
#include <vector>

#include "manager/engine.hpp"

namespace rowlock::managing {

/// Made for one call; thread-safe.
class releasing {
 public:
  explicit releasing(engine& e) noexcept : engine_(e) {}

  /// What can't be given back by `deadline` is given back later.
  release_result give_back(std::shared_ptr<holding::hold> const&, boot_time_point deadline) noexcept;
  /// The same for several, in one statement where that can be done. @return what became of the first that was
  /// not released
  release_result give_back_all(std::vector<std::shared_ptr<holding::hold>>,
                               boot_time_point deadline) noexcept;
  /// To the next in line, or by the manager's threads, later; a session ends, and its lock with it. Nothing
  /// is asked here.
  void leave_behind(std::shared_ptr<holding::hold> const&) const noexcept;
  /// A lost term may still be in its row (revoked, or out of time by this process's clock). The next owner
  /// need not wait until it expires, because the work here has stopped.
  void give_back_lost(holding::hold const&) noexcept;
  /// The same, but at once: no thread will come back to it.
  void give_back_lost(holding::hold const&, boot_time_point deadline) noexcept;

 private:
  using holds = std::vector<std::shared_ptr<holding::hold>>;
  /// @return what became of it; empty if its row, or session, is still to be told
  std::optional<release_result> let_go(std::shared_ptr<holding::hold> const&) noexcept;
  release_result end(holding::hold&, boot_time_point deadline) noexcept;
  /// Of several, what a single statement can give back. @return whether it was; if not, it is to be done
  /// alone
  std::vector<bool> end_together(holds const&, boot_time_point deadline);
  bool goes_with_others(holding::hold const&) const noexcept;
  release_result end_session(holding::hold&, boot_time_point deadline) noexcept;
  /// Sets `why` if the term is not in the row any more.
  release_result tell_row(holding::hold&, boot_time_point deadline, loss_reason& why);
  /// On the wait queue's own session, if there is one; else, or if nothing was done there, empty.
  std::optional<strategies::given_back> give_back_at_queue(holding::hold&, boot_time_point deadline);
  /// `session`: if there is one already.
  loss_reason why_gone(holding::hold const&, std::optional<sessions::connection_pool::loan> session,
                       boot_time_point deadline) noexcept;
  /// Of a term that is not in its row any more: it was lost, or its work is done.
  release_result not_there(holding::hold&, std::optional<sessions::connection_pool::loan> session,
                           boot_time_point deadline, loss_reason& why);
  strategies::given_back give_back_alone(holding::hold const&, backend::connection&,
                                         boot_time_point deadline);
  strategies::given_back try_to_give_back(holding::hold const&,
                                          std::optional<sessions::connection_pool::loan>& session,
                                          boot_time_point deadline);
  strategies::given_back give_back_with_others(holding::hold const&, boot_time_point deadline,
                                               std::optional<sessions::connection_pool::loan>& alone);
  bool is_locked(holding::hold const&, backend::connection&, boot_time_point deadline);
  bool offer(std::shared_ptr<holding::hold> const&) const noexcept;
  void forget(holding::hold const&) const noexcept;
  void tell_released(holding::hold const&, boot_time_point since) const noexcept;
  void tell_error(holding::hold const&, std::exception const&) const noexcept;

  engine& engine_;
};

}  // namespace rowlock::managing
