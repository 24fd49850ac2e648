#include "api/asynchronous.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <utility>
#include <variant>
#include <vector>

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

/// The same for several locks, in the order of the caller's list.
class asynchronously_taken_all final : public managing::receiver {
 public:
  asynchronously_taken_all(std::vector<std::string> const& names,
                           std::unique_ptr<async_handler<acquisition_of_all>> h)
      : handler_(std::move(h)) {
    locks_.reserve(names.size());
    auto sorted = names;
    std::sort(sorted.begin(), sorted.end());
    for (auto const& name : names)
      places_.push_back(
          static_cast<std::size_t>(std::lower_bound(sorted.begin(), sorted.end(), name) - sorted.begin()));
  }

  // No allocation once there are locks: an exception would leave some without a handle.
  void receive(std::exception_ptr failed, std::shared_ptr<managing::manager> m,
               managing::taken came) override {
    if (failed) return handler_->call(std::move(failed), {acquire_status::cancelled, {}, {}});
    if (came.won.empty())
      return handler_->call(nullptr, {came.why, std::move(came.busy), std::move(came.holder)});
    for (auto const i : places_) {
      locks_.push_back(held_lock(m, std::move(came.won[i])));
      locks_.back().later_ = true;
    }
    handler_->call(nullptr, held_locks(std::move(locks_)));
  }

 private:
  std::unique_ptr<async_handler<acquisition_of_all>> handler_;
  std::vector<std::size_t> places_;
  std::vector<held_lock> locks_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE

namespace rowlock {
namespace {

managing::wait_policy policy_of(async_wait const& how) {
  managing::wait_policy p{.one_attempt = how.one_attempt};
  if (how.timeout) p.deadline = base::deadline_after(*how.timeout);
  return p;
}

void own_each(mutex_options& o) {
  if (!std::holds_alternative<takes_over>(o.owner)) o.owner = each_acquire{};
}

}  // namespace

async_start<acquisition> take_asynchronously(std::shared_ptr<managing::manager> m,
                                             managing::lock_spec const& s, async_wait const& how) {
  if (s.recursive)
    throw error(
        errc::unsupported,
        fmt::format("'{}': a recursive_mutex belongs to a thread: use a mutex asynchronously", s.name));
  auto const p = policy_of(how);
  auto options = s.options;
  own_each(options);
  std::vector specs{m->spec(s.name, std::move(options), s.recursive, s.permit)};
  return [m = std::move(m), specs = std::move(specs), p](
             executor where, std::unique_ptr<async_handler<acquisition>> h, std::stop_token stop) {
    m->acquire_later(specs, p, std::move(stop), std::move(where),
                     std::make_unique<asynchronously_taken>(std::move(h)));
  };
}

async_start<acquisition_of_all> take_all_asynchronously(std::shared_ptr<managing::manager> m,
                                                        std::vector<std::string> const& names,
                                                        mutex_options options, async_wait const& how) {
  auto const p = policy_of(how);
  own_each(options);
  auto specs = m->specs(names, options);
  return [m = std::move(m), specs = std::move(specs), names, p](
             executor where, std::unique_ptr<async_handler<acquisition_of_all>> h, std::stop_token stop) {
    m->acquire_later(specs, p, std::move(stop), std::move(where),
                     std::make_unique<asynchronously_taken_all>(names, std::move(h)));
  };
}

}  // namespace rowlock
