#include <fmt/format.h>

#include <algorithm>
#include <rowlock/error.hpp>
#include <rowlock/held_locks.hpp>

#include "manager/manager.hpp"

namespace rowlock {

bool held_locks::valid() const noexcept {
  return !locks_.empty() &&
         std::all_of(locks_.begin(), locks_.end(), [](auto const& l) { return l.valid(); });
}

release_result held_locks::release() noexcept try {
  std::vector<std::shared_ptr<holding::hold>> live;
  live.reserve(locks_.size());
  std::shared_ptr<managing::manager> manager;
  for (auto& one : locks_)
    if (one.live_.exchange(false)) {
      manager = one.manager_;
      live.push_back(one.hold_);
    }
  return manager ? manager->release_all(std::move(live)) : release_result::released;
} catch (std::exception const&) {  // no memory for the list, and no lock was released
  auto worst = release_result::released;
  for (auto& one : locks_) {
    auto const what = one.release();
    if (worst == release_result::released) worst = what;
  }
  return worst;
}

acquisition_of_all::acquisition_of_all(acquire_status why_not, std::string busy_name,
                                       std::optional<holder_info> holder)
    : status_(why_not), busy_(std::move(busy_name)), holder_(std::move(holder)) {
  if (why_not == acquire_status::acquired)
    throw error(errc::invalid_argument, "an acquisition without locks can't say acquired");
}

void acquisition_of_all::require_locks() const {
  if (locks_) return;
  auto const name = busy_.empty() ? "" : fmt::format(", '{}'", busy_);
  auto const by =
      holder_ ? fmt::format(", held by process {} on {}", holder_->owner.pid, holder_->owner.host) : "";
  throw error(errc::not_acquired, to_string(status_) + name + by);
}

held_locks& acquisition_of_all::value() & {
  require_locks();
  return *locks_;
}
held_locks const& acquisition_of_all::value() const& {
  require_locks();
  return *locks_;
}
held_locks acquisition_of_all::value() && {
  require_locks();
  return take_out();
}

}  // namespace rowlock
