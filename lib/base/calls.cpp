#include "base/calls.hpp"

#include <utility>

namespace rowlock::base {
namespace {

thread_local calls::scope const* innermost = nullptr;
thread_local calls::scope const* left_behind = nullptr;  ///< innermost when the program's code was entered
thread_local bool serves = false;

}  // namespace

calls::scope::scope(calls& c) : of_(c), around_(innermost) {
  std::lock_guard const guard(of_.mutex_);
  ++of_.under_way_;
  innermost = this;
}

calls::scope::~scope() {
  innermost = around_;
  std::lock_guard const guard(of_.mutex_);
  --of_.under_way_;
  of_.left_.notify_all();  // with the mutex: of_ can end right after its last call
}

calls::scope const* calls::stack_of_this_thread() noexcept { return innermost; }

int calls::in(scope const* stack) const noexcept {
  int n = 0;
  for (auto const* s = stack; s != nullptr; s = s->around_)
    if (&s->of_ == this) ++n;
  return n;
}

bool calls::interrupted() const noexcept {
  for (auto const* s = innermost; s != left_behind; s = s->around_)
    if (&s->of_ == this) return true;
  return false;
}

bool calls::wait_until_gone(int others_than, boot_time_point deadline) {
  std::unique_lock lock(mutex_);
  auto const gone = [&] { return under_way_ <= others_than; };
  if (deadline == boot_time_point::max()) {
    left_.wait(lock, gone);
    return true;
  }
  return left_.wait_until(lock, std::chrono::steady_clock::now() + (deadline - boot_clock::now()), gone);
}

outside::outside() noexcept : left_(std::exchange(left_behind, innermost)) {}
outside::~outside() { left_behind = left_; }

serving::serving() noexcept : before_(std::exchange(serves, true)) {}
serving::~serving() { serves = before_; }

bool inside_the_library() noexcept { return serves || innermost != nullptr; }

}  // namespace rowlock::base
