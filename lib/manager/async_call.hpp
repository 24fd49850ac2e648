#pragma once
// A call without a thread that waits: steps (steps.hpp), driven by the dispatcher (dispatcher.hpp). What is
// called, and what the program gets, is a derived class's: async_take, async_steps.
//
// Who may touch it, by its place:
//
//   place     owner
//   fresh     the calling thread, until it lists the call; then the dispatcher, which steps it
//   asking    a worker, which asks the call's question. The dispatcher may send the answer away
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
#include <variant>

#include "manager/continuation.hpp"
#include "manager/name_watch.hpp"
#include "manager/steps.hpp"
#include "waiting/bell.hpp"

namespace rowlock::managing {

class async_take;
class dispatcher;

class async_call : public waiting::bell {
 public:
  explicit async_call(dispatcher&) noexcept;
  ~async_call() override;
  async_call(async_call const&) = delete;
  async_call& operator=(async_call const&) = delete;

  void ring() noexcept final;

 protected:
  struct ended {};
  using need = std::variant<question, pause, ended>;
  template <class Result>
  static need as_need(std::variant<question, pause, Result>&& what, Result& result) {
    if (auto const* const q = std::get_if<question>(&what)) return *q;
    if (auto const* const w = std::get_if<pause>(&what)) return *w;
    result = std::get<Result>(std::move(what));
    return ended{};
  }

 private:
  friend class dispatcher;

  /// See steps::next(). Keeps the result.
  virtual need next() = 0;
  /// In a worker: asks the question that next() returned.
  virtual void ask() = 0;
  /// Whether the program does not wait any more.
  virtual bool stopped() const noexcept = 0;
  /// What the program gets: once, then null. Before the end: that the call was stopped.
  virtual std::unique_ptr<continuation> answer(std::exception_ptr) noexcept = 0;
  /// No thread rings from here on.
  virtual void end() noexcept = 0;
  virtual async_take* as_take() noexcept { return nullptr; }

  enum class place { fresh, asking, pausing, ended };
  using timers = std::multimap<std::chrono::steady_clock::time_point, async_call*>;
  static constexpr unsigned listed = 1;
  static constexpr unsigned rung = 2;
  static constexpr unsigned answered = 4;
  void tell(unsigned bit) noexcept;

  dispatcher& dispatcher_;
  place place_ = place::fresh;
  std::atomic<unsigned> bits_ = listed;
  async_call* next_ = nullptr;  ///< in the dispatcher's list
  timers::iterator timer_;
  std::optional<name_watch::entries::iterator> watched_;
  std::exception_ptr failed_;
  bool has_ended_ = false;  ///< there are no more steps
};

}  // namespace rowlock::managing
