#pragma once
// A call that takes without a thread that waits: lock_call's steps, driven by the dispatcher
// (dispatcher.hpp).
//
// Who may touch it, by its place:
//
//   place     owner
//   fresh     the calling thread, until it lists the call; then the dispatcher, which steps it
//   asking    a worker, which asks the call's question. The dispatcher may send the delivery away
//   pausing   the dispatcher
//   ended     the dispatcher
//
// Any thread rings: that sets a bit, and lists the call at the dispatcher unless it is listed. A call that is
// listed is not destroyed. It is listed from its construction on, because a stopped token rings in there.

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>

#include "manager/delivery.hpp"
#include "manager/lock_call.hpp"
#include "waiting/bell.hpp"

namespace rowlock::managing {

class dispatcher;

class async_call final : public waiting::bell {
 public:
  async_call(dispatcher&, engine&, std::shared_ptr<order const>);
  ~async_call() override;
  async_call(async_call const&) = delete;
  async_call& operator=(async_call const&) = delete;

  void ring() noexcept override;

 private:
  friend class dispatcher;
  enum class place { fresh, asking, pausing, ended };
  using timers = std::multimap<std::chrono::steady_clock::time_point, async_call*>;
  static constexpr unsigned listed = 1;
  static constexpr unsigned rung = 2;
  static constexpr unsigned answered = 4;
  void tell(unsigned bit) noexcept;

  dispatcher& dispatcher_;
  std::shared_ptr<order const> const what_;
  std::unique_ptr<delivery> delivery_;  ///< null: on its way
  place place_ = place::fresh;
  std::atomic<unsigned> bits_ = listed;
  async_call* next_ = nullptr;  ///< in the dispatcher's list
  timers::iterator timer_;
  std::exception_ptr failed_;
  taken result_;
  boot_time_point const began_ = boot_clock::now();
  std::optional<lock_call> call_;  ///< last: it rings this
};

}  // namespace rowlock::managing
