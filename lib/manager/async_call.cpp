#include "manager/async_call.hpp"

#include "manager/dispatcher.hpp"

namespace rowlock::managing {

async_call::async_call(dispatcher& d) noexcept : dispatcher_(d) {}

async_call::~async_call() = default;

void async_call::ring() noexcept { tell(rung); }

void async_call::tell(unsigned bit) noexcept {
  if ((bits_.fetch_or(bit | listed, std::memory_order_acq_rel) & listed) == 0) dispatcher_.list(*this);
}

}  // namespace rowlock::managing
