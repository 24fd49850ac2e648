#include "manager/async_take.hpp"

#include <utility>

namespace rowlock::managing {

async_take::async_take(dispatcher& d, engine& e, std::shared_ptr<order const> what)
    : async_call(d), engine_(e), what_(std::move(what)) {
  call_.emplace(e, what_->specs, what_->how, what_->stop, *this);
}

async_take::~async_take() = default;

bool async_take::stopped() const noexcept {
  return what_->stop.stop_requested() || engine_.closing.stop_requested();
}

std::unique_ptr<continuation> async_take::answer(std::exception_ptr failed) noexcept {
  if (!delivery_) return nullptr;
  auto came = std::exchange(result_, taken{.why = acquire_status::cancelled});
  if (!failed && came.won.empty()) tell_refused(engine_, what_->specs, came, began_);
  delivery_->bring(std::move(failed), std::move(came));
  return std::move(delivery_);
}

}  // namespace rowlock::managing
