#include "manager/async_waits.hpp"

namespace rowlock::managing {

async_free_wait::async_free_wait(dispatcher& d, engine& e, lock_spec spec, deadline until,
                                 std::unique_ptr<answer_for<bool>> a, std::stop_token stop)
    : async_wait_for(d, e, std::move(a), std::move(stop)), spec_(std::move(spec)) {
  call_.emplace(e, spec_, until, stop_, *this);
}

async_pause::async_pause(dispatcher& d, engine& e, std::chrono::steady_clock::time_point until,
                         std::unique_ptr<answer_for<bool>> a, std::stop_token stop)
    : async_wait_for(d, e, std::move(a), std::move(stop)), until_(until) {
  stop_request_.emplace(e, stop_, *this);
}

async_call::need async_pause::next() {
  bool const over = std::chrono::steady_clock::now() >= until_;
  if (!over && !stop_request_->now()) return pause{until_};
  result_ = !stop_request_->now();
  return ended{};
}

async_end_wait::async_end_wait(dispatcher& d, engine& e, std::shared_ptr<holding::hold> h,
                               std::unique_ptr<answer_type> a, std::stop_token stop)
    : async_wait_for(d, e, std::move(a), std::move(stop)), hold_(std::move(h)), ended_(hold_->end_token()) {
  on_end_.emplace(ended_, rings{*this});
  stop_request_.emplace(e, stop_, *this);
}

// After the manager's end, which ends all its locks, the reason is still that of the lock.
async_call::need async_end_wait::next() {
  if (!ended_.stop_requested() && !stop_request_->now()) return pause{};
  result_ = hold_->loss();
  return ended{};
}

void async_end_wait::end() noexcept {
  on_end_.reset();
  stop_request_.reset();
}

}  // namespace rowlock::managing
