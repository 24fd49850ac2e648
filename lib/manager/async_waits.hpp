#pragma once
// Asynchronous calls that take nothing: their answer goes to the program, or is dropped.

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <rowlock/types.hpp>
#include <stop_token>
#include <utility>

#include "manager/async_call.hpp"
#include "manager/engine.hpp"
#include "manager/free_wait.hpp"
#include "manager/stop_request.hpp"

namespace rowlock::managing {

template <class Result>
class async_wait_for : public async_call {
 protected:
  async_wait_for(dispatcher& d, engine& e, std::unique_ptr<answer_for<Result>> a, std::stop_token stop)
      : async_call(d), engine_(e), stop_(std::move(stop)), answer_(std::move(a)) {}
  engine& engine_;
  std::stop_token const stop_;
  Result result_{};

 private:
  bool stopped() const noexcept override {
    return stop_.stop_requested() || engine_.closing.stop_requested();
  }
  std::unique_ptr<continuation> answer(std::exception_ptr failed) noexcept override {
    if (answer_) answer_->bring(std::move(failed), result_);
    return std::move(answer_);
  }
  std::unique_ptr<answer_for<Result>> answer_;  ///< null: on its way
};

/// free_wait.hpp
class async_free_wait final : public async_wait_for<bool> {
 public:
  using deadline = std::optional<std::chrono::steady_clock::time_point>;
  async_free_wait(dispatcher&, engine&, lock_spec, deadline, std::unique_ptr<answer_for<bool>>,
                  std::stop_token);

 private:
  need next() override { return as_need(call_->next(), result_); }
  void ask() override { call_->ask(); }
  void end() noexcept override { call_.reset(); }

  lock_spec const spec_;
  std::optional<free_wait> call_;  ///< last: it rings this
};

/// The answer: false if it was stopped.
class async_pause final : public async_wait_for<bool> {
 public:
  async_pause(dispatcher&, engine&, std::chrono::steady_clock::time_point, std::unique_ptr<answer_for<bool>>,
              std::stop_token);

 private:
  need next() override;
  void ask() override {}
  void end() noexcept override { stop_request_.reset(); }

  std::chrono::steady_clock::time_point const until_;
  std::optional<stop_request> stop_request_;
};

/// Until a lock has ended. The answer says why it was lost; empty: released, or the wait was stopped.
class async_end_wait final : public async_wait_for<std::optional<loss_reason>> {
 public:
  using answer_type = answer_for<std::optional<loss_reason>>;
  async_end_wait(dispatcher&, engine&, std::shared_ptr<holding::hold>, std::unique_ptr<answer_type>,
                 std::stop_token);

 private:
  need next() override;
  void ask() override {}
  void end() noexcept override;

  struct rings {
    waiting::bell& bell;
    void operator()() const noexcept { bell.ring(); }
  };
  std::shared_ptr<holding::hold> const hold_;
  std::stop_token const ended_;
  std::optional<std::stop_callback<rings>> on_end_;
  std::optional<stop_request> stop_request_;
};

}  // namespace rowlock::managing
