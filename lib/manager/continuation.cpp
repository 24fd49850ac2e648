#include "manager/continuation.hpp"

#include "base/process_end.hpp"
#include "manager/dispatcher.hpp"
#include "manager/manager.hpp"

namespace rowlock::managing {

continuation::continuation(std::shared_ptr<manager> of, executor where) noexcept
    : of_(std::move(of)), where_(std::move(where)) {}

void continuation::run(std::unique_ptr<work> itself) {
  if (epoch_ != base::fork_epoch() || base::process_ends_elsewhere()) return (void)itself.release();
  if (dispatcher::posts_here()) return of_->asynchronous().run_by_itself(std::move(itself));
  go_on(itself);
}

void continuation::refuse(std::unique_ptr<work> itself) noexcept {
  if (epoch_ != base::fork_epoch() || base::process_ends()) return (void)itself.release();
  give_up();
}

}  // namespace rowlock::managing
