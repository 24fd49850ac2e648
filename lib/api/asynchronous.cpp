#include "api/asynchronous.hpp"

#include <fmt/format.h>

#include <rowlock/error.hpp>
#include <utility>
#include <variant>

#include "base/deadline.hpp"

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Makes a handle of what came.
class asynchronously_taken final : public managing::receiver {
 public:
  explicit asynchronously_taken(std::unique_ptr<async_handler<acquisition>> h) : handler_(std::move(h)) {}

  void receive(std::exception_ptr failed, std::shared_ptr<managing::manager> m,
               managing::taken came) override {
    if (failed) return handler_->call(std::move(failed), {acquire_status::cancelled, {}});
    if (came.won.empty()) return handler_->call(nullptr, {came.why, std::move(came.holder)});
    held_lock lock(std::move(m), std::move(came.won.front()));
    lock.later_ = true;
    handler_->call(nullptr, std::move(lock));
  }

 private:
  std::unique_ptr<async_handler<acquisition>> handler_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

namespace rowlock {

async_start<acquisition> take_asynchronously(std::shared_ptr<managing::manager> m,
                                             managing::lock_spec const& s, async_wait const& how) {
  if (s.recursive)
    throw error(
        errc::unsupported,
        fmt::format("'{}': a recursive_mutex belongs to a thread: use a mutex asynchronously", s.name));
  managing::wait_policy p{.one_attempt = how.one_attempt};
  if (how.timeout) p.deadline = base::deadline_after(*how.timeout);
  auto options = s.options;
  if (!std::holds_alternative<takes_over>(options.owner)) options.owner = each_acquire{};
  auto spec = m->spec(s.name, std::move(options), s.recursive, s.permit);
  return [m = std::move(m), spec = std::move(spec), p](
             executor where, std::unique_ptr<async_handler<acquisition>> h, std::stop_token stop) {
    m->acquire_later(spec, p, std::move(stop), std::move(where),
                     std::make_unique<asynchronously_taken>(std::move(h)));
  };
}

}  // namespace rowlock
