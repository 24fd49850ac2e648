#include "manager/delivery.hpp"

#include <algorithm>
#include <rowlock/error.hpp>

#include "manager/dispatcher.hpp"
#include "manager/manager.hpp"
#include "manager/start_holding.hpp"

namespace rowlock::managing {

delivery::delivery(std::shared_ptr<manager> of, executor where, std::unique_ptr<receiver> whom,
                   std::shared_ptr<order const> what) noexcept
    : continuation(std::move(of), std::move(where)), whom_(std::move(whom)), what_(std::move(what)) {}

void delivery::bring(std::exception_ptr failed, taken result) noexcept {
  failed_ = std::move(failed);
  result_ = std::move(result);
}

void delivery::go_on(std::unique_ptr<work>& itself) {
  if (is_late() && begin_again(itself)) return;
  auto const whom = std::move(whom_);
  whom->receive(std::move(failed_), std::move(of_), std::move(result_));
}

bool delivery::is_late() const noexcept {
  return std::any_of(result_.won.begin(), result_.won.end(),
                     [](auto const& h) { return !h->held() || is_too_late(*h); });
}

void delivery::give_up() noexcept {
  of_->asynchronous().release(std::move(result_.won), true);
  result_ = {};
}

// Not for an owner that is known again: a newer call of the same owner might hold the name by now, and
// another try would take it over.
bool delivery::begin_again(std::unique_ptr<work>& itself) noexcept try {
  give_up();
  result_.why = acquire_status::cancelled;
  auto const keeps = of_;  // the call can have ended before start() returns
  auto const& o = *what_;
  if (keeps->parts().closing.stop_requested()) return false;
  if (o.stop.stop_requested()) return false;
  if (o.how.one_attempt || o.how.over() || o.specs.front().known_again())
    throw too_late(o.specs.front().name);
  std::unique_ptr<delivery> mine(static_cast<delivery*>(itself.release()));
  try {
    keeps->asynchronous().start(mine);
    return true;
  } catch (...) {
    itself = std::move(mine);
    throw;
  }
} catch (error const& e) {
  if (e.reason() != errc::closed) failed_ = std::current_exception();
  return false;
} catch (...) {
  failed_ = std::current_exception();
  return false;
}

}  // namespace rowlock::managing
