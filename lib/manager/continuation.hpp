#pragma once
// What an asynchronous call posts to the program's executor. Its owner is the library until the post, then
// the executor.

#include <exception>
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

/// A result for the program's handler.
template <class Result>
class answer_for final : public continuation {
 public:
  answer_for(std::shared_ptr<manager> of, executor where, std::unique_ptr<async_handler<Result>> whom)
      : continuation(std::move(of), std::move(where)), whom_(std::move(whom)) {}
  void bring(std::exception_ptr failed, Result result) noexcept {
    failed_ = std::move(failed);
    result_ = std::move(result);
  }

 private:
  void go_on(std::unique_ptr<work>&) override {
    auto const whom = std::move(whom_);
    whom->call(std::move(failed_), std::move(result_));
  }
  std::unique_ptr<async_handler<Result>> whom_;
  Result result_{};
  std::exception_ptr failed_;
};

}  // namespace rowlock::managing
