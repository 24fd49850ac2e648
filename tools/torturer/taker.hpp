#pragma once
// A lock of any kind that is taken by itself, as the options say.

#include <chrono>
#include <cstdint>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <stop_token>
#include <string>
#include <utility>

#include "options.hpp"

namespace rowlock::torture {

class taker {
 public:
  taker(lock_manager& m, options const& o, std::string const& name, mutex_options how) : what_(o.what) {
    if (is_mutex(what_)) {
      how.strategy = o.how;
      how.fencing = true;
      how.takeover = o.how_over;
    }
    switch (what_) {
      case workload::shared:
        shared_.emplace(m.make_shared_mutex(name, how));
        break;
      case workload::semaphore:
        semaphore_.emplace(m.make_semaphore(name, limit_of(what_), how));
        break;
      case workload::recursive_mutex:
        recursive_.emplace(m.make_recursive_mutex(name, how));
        break;
      default:
        mutex_.emplace(m.make_mutex(name, how));
    }
  }

  /// How many units a turn takes.
  template <class Draw>
  std::int64_t draw_units(Draw const& draw) const {
    switch (what_) {
      case workload::shared:
        return draw(3) == 0 ? limit_of(what_) : 1;
      case workload::semaphore:
        return 1 + static_cast<std::int64_t>(draw(3));
      default:
        return 1;
    }
  }

  acquisition take(std::int64_t units, std::chrono::milliseconds patience, std::stop_token stop) {
    switch (what_) {
      case workload::shared:
        return units == 1 ? shared_->try_acquire_shared_for(patience, std::move(stop))
                          : shared_->try_acquire_for(patience, std::move(stop));
      case workload::semaphore:
        return semaphore_->try_acquire_for(patience, units, std::move(stop));
      case workload::recursive_mutex:
        return recursive_->try_acquire_for(patience, std::move(stop));
      default:
        return mutex_->try_acquire_for(patience, std::move(stop));
    }
  }

  /// Without waiting. `handler`: none to be awaited, else what `where` calls. Of no recursive_mutex.
  template <class... Handler>
  auto take_later(std::int64_t units, std::chrono::milliseconds patience, executor const& where,
                  std::stop_token const& stop, Handler... handler) {
    bool const once = patience == std::chrono::milliseconds(0);
    if (semaphore_)
      return once ? semaphore_->async_try_acquire(units, where, std::move(handler)...)
                  : semaphore_->async_acquire_for(patience, units, where, std::move(handler)..., stop);
    auto& m = shared_ ? static_cast<basic_mutex&>(*shared_) : *mutex_;
    if (shared_ && units == 1)
      return once ? shared_->async_try_acquire_shared(where, std::move(handler)...)
                  : shared_->async_acquire_shared_for(patience, where, std::move(handler)..., stop);
    return once ? m.async_try_acquire(where, std::move(handler)...)
                : m.async_acquire_for(patience, where, std::move(handler)..., stop);
  }

  /// By the thread that has it. Empty: there is no such thing.
  std::optional<acquisition> take_again() {
    if (!recursive_) return {};
    return recursive_->try_acquire();
  }

 private:
  workload what_;
  std::optional<mutex> mutex_;
  std::optional<recursive_mutex> recursive_;
  std::optional<shared_mutex> shared_;
  std::optional<semaphore> semaphore_;
};

}  // namespace rowlock::torture
