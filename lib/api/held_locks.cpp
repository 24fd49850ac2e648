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

/// Those that are not released yet. No handle releases them any more.
/// @throws std::bad_alloc; then all handles are as they were
std::vector<std::shared_ptr<holding::hold>> held_locks::take_live() {
  std::vector<std::shared_ptr<holding::hold>> live;
  live.reserve(locks_.size());
  for (auto& one : locks_)
    if (one.live_.exchange(false)) live.push_back(one.hold_);
  return live;
}

void held_locks::give_back() noexcept {
  if (!locks_.empty() && locks_.front().later_)
    release_later();
  else
    (void)release();
}

void held_locks::release_later() noexcept try {
  if (auto live = take_live(); !live.empty()) locks_.front().manager_->release_later(std::move(live));
} catch (std::exception const&) {  // no memory for the list
  for (auto& one : locks_) one.release_later();
}

void held_locks::async_release_with(executor where, std::unique_ptr<async_handler<release_result>> whom) {
  if (locks_.empty()) throw error(errc::invalid_argument, "there are no locks to release");
  auto const m = locks_.front().manager_;
  auto const live = take_live();
  try {
    m->ask_later<release_result>(
        std::move(where), std::move(whom), [m, live] { return m->release_all(live); }, true);
  } catch (...) {
    for (auto& one : locks_)
      if (std::find(live.begin(), live.end(), one.hold_) != live.end()) one.live_ = true;
    throw;
  }
}

release_result held_locks::release() noexcept try {
  auto live = take_live();
  return live.empty() ? release_result::released : locks_.front().manager_->release_all(std::move(live));
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
