#pragma once
// The databases of a quorum, as one program sees them: threads for each, and its last outcome.
// lib/doc/quorum.md

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <rowlock/error.hpp>
#include <string>
#include <vector>

#include "base/task_queue.hpp"
#include "manager/member.hpp"

namespace rowlock::voting {

/// Thread-safe.
class quorum_members {
 public:
  explicit quorum_members(std::vector<managing::member>);

  std::size_t size() const noexcept { return seats_.size(); }
  managing::member const& at(std::size_t member) const { return seats_.at(member)->who; }
  std::string const& where(std::size_t member) const { return at(member).describe(); }
  std::chrono::milliseconds reply_timeout() const noexcept { return reply_timeout_; }

  /// Did not answer the last time. It is still asked, but no call waits for it.
  bool is_suspect(std::size_t member) const noexcept { return seats_[member]->suspect.load(); }
  /// Remembers whether a member answers. Call it after each question.
  void heard(std::size_t member, error const* failure) noexcept;

  /// Runs `question` on a thread of the member. @return as task_queue::run
  bool ask(std::size_t member, base::task_queue::task question, base::task_queue::kind how,
           std::size_t most = 256);
  /// Runs `question` for each member on its threads (without a thread: here), and waits for all.
  void ask_all(std::function<void(std::size_t)> const& question);

  /// Waits for the tasks that must be run. No question may follow.
  void end() noexcept { seats_.clear(); }

 private:
  struct seat {
    explicit seat(managing::member m) : who(std::move(m)) {}
    managing::member who;
    std::atomic<bool> suspect{false};
    base::task_queue asked{"rowlock-quorum"};  ///< last: its threads use the rest
  };
  std::vector<std::unique_ptr<seat>> seats_;
  std::chrono::milliseconds reply_timeout_{0};
};

}  // namespace rowlock::voting
