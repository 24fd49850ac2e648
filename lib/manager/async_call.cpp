#include "manager/async_call.hpp"

#include <span>

#include "manager/dispatcher.hpp"

namespace rowlock::managing {

async_call::async_call(dispatcher& d, engine& e, std::shared_ptr<order const> what)
    : dispatcher_(d), what_(std::move(what)) {
  call_.emplace(e, std::span(&what_->spec, 1), what_->how, what_->stop, *this);
}

async_call::~async_call() = default;

void async_call::ring() noexcept { tell(rung); }

void async_call::tell(unsigned bit) noexcept {
  if ((bits_.fetch_or(bit | listed, std::memory_order_acq_rel) & listed) == 0) dispatcher_.list(*this);
}

}  // namespace rowlock::managing
