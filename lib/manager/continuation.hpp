#pragma once
// What an asynchronous call posts to the program's executor. Its owner is the library until the post, then
// the executor.

#include <exception>
#include <functional>
#include <memory>
#include <rowlock/asynchronous.hpp>
#include <rowlock/executor.hpp>
#include <utility>

#include "base/fork_epoch.hpp"

namespace rowlock::managing {

class manager;

class continuation : public posted::work {
 public:
  continuation(std::shared_ptr<manager> of, executor where) noexcept;
  executor const& where() const noexcept { return where_; }

  /// In a forked child, and while another thread ends the process, it is neither run nor destroyed: what it
  /// refers to is the parent's, or may be gone. Inside an executor's post() it goes to the library's thread.
  void run(std::unique_ptr<work> itself) final;
  void refuse(std::unique_ptr<work> itself) noexcept final;

 protected:
  virtual void go_on(std::unique_ptr<work>& itself) = 0;
  virtual void give_up() noexcept {}
  std::shared_ptr<manager> of_;

 private:
  executor const where_;
  unsigned const epoch_ = base::fork_epoch();
};

/// A question that a worker asks, and whose answer the program gets.
class errand : public continuation {
 public:
  using continuation::continuation;
  virtual void ask() noexcept = 0;
};

template <class Result>
class errand_for final : public errand {
 public:
  errand_for(std::shared_ptr<manager> of, executor where, std::unique_ptr<async_handler<Result>> whom,
             std::function<Result()> asks)
      : errand(std::move(of), std::move(where)), whom_(std::move(whom)), asks_(std::move(asks)) {}
  void ask() noexcept override {
    try {
      result_ = asks_();
    } catch (...) {
      failed_ = std::current_exception();
    }
  }

 private:
  void go_on(std::unique_ptr<work>&) override {
    auto const whom = std::move(whom_);
    whom->call(std::move(failed_), std::move(result_));
  }
  std::unique_ptr<async_handler<Result>> whom_;
  std::function<Result()> const asks_;
  Result result_{};
  std::exception_ptr failed_;
};

}  // namespace rowlock::managing
