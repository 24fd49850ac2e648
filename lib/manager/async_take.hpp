#pragma once
// An asynchronous lock_call, and its delivery.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "manager/async_call.hpp"
#include "manager/delivery.hpp"
#include "manager/lock_call.hpp"

namespace rowlock::managing {

class async_take final : public async_call {
 public:
  async_take(dispatcher&, engine&, std::shared_ptr<order const>);
  ~async_take() override;
  async_take(async_take const&) = delete;
  async_take& operator=(async_take const&) = delete;

  void deliver_by(std::unique_ptr<delivery> d) noexcept { delivery_ = std::move(d); }
  strategy_traits const& its_strategy() const noexcept { return traits(what_->specs.front().strategy); }
  lock_call& call() noexcept { return *call_; }
  bool has_leftovers() const noexcept { return call_ && call_->has_leftovers(); }
  /// Granted after the answer was sent.
  std::vector<std::shared_ptr<holding::hold>> unseen() noexcept { return std::move(result_.won); }

 private:
  need next() override { return as_need(call_->next(), result_); }
  void ask() override { call_->ask(); }
  bool stopped() const noexcept override;
  std::unique_ptr<continuation> answer(std::exception_ptr) noexcept override;
  void end() noexcept override { call_.reset(); }
  async_take* as_take() noexcept override { return this; }

  engine& engine_;
  std::shared_ptr<order const> const what_;
  std::unique_ptr<delivery> delivery_;  ///< null: on its way
  taken result_{.why = acquire_status::cancelled};
  boot_time_point const began_ = boot_clock::now();
  std::optional<lock_call> call_;  ///< last: it rings this
};

}  // namespace rowlock::managing
