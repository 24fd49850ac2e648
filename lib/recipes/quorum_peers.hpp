#pragma once
// The databases of a quorum, as one program sees them: a seat each, with threads that ask it, and whether it
// answered the last time. lib/doc/quorum.md

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <rowlock/error.hpp>
#include <string>
#include <vector>

#include "base/task_queue.hpp"
#include "manager/manager.hpp"

namespace rowlock::recipes {

/// Thread-safe.
class quorum_peers {
 public:
  using manager_ptr = std::shared_ptr<managing::manager>;

  explicit quorum_peers(std::vector<manager_ptr>);

  std::size_t size() const noexcept { return seats_.size(); }
  managing::manager& at(std::size_t member) const { return *seats_.at(member)->manager; }
  std::string const& where(std::size_t member) const;
  std::chrono::milliseconds reply_timeout() const noexcept { return reply_timeout_; }

  /// Did not answer the last time. It is asked on, beside the others, but nobody waits for it.
  bool is_suspect(std::size_t member) const noexcept { return seats_[member]->suspect.load(); }
  /// Remembers whether a member answers. Call it with what each question has come to.
  void heard(std::size_t member, error const* failure) noexcept;

  /// Runs `question` beside others. @return as task_queue::run
  bool ask(std::size_t member, base::task_queue::task question, base::task_queue::kind how,
           std::size_t most = 256);
  /// Runs `question` for each member beside the others (without a thread: here), and waits for all of them.
  void ask_all(std::function<void(std::size_t)> const& question);

  /// Waits for all that was asked and must be run. Nothing is asked any more.
  void end() noexcept { seats_.clear(); }

 private:
  struct seat {
    explicit seat(manager_ptr m) : manager(std::move(m)) {}
    manager_ptr manager;
    std::atomic<bool> suspect{false};
    base::task_queue asked{"rowlock-quorum"};  ///< last: its threads use the rest
  };
  std::vector<std::unique_ptr<seat>> seats_;
  std::chrono::milliseconds reply_timeout_{0};
};

}  // namespace rowlock::recipes
