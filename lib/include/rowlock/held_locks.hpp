#pragma once

#include <rowlock/asynchronous.hpp>
#include <rowlock/executor.hpp>
#include <rowlock/export.hpp>
#include <rowlock/held_lock.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

class lock_manager;

/// Locks taken together, all or none, by lock_manager::try_acquire_all() or acquire_all(). Move-only. The
/// destructor releases those still held, on any thread. If they were taken asynchronously, it does not wait.
///
/// Each lock has a term, token, renewal and loss of its own: look at valid(), or at each loss_token().
///
/// May outlive its lock_manager, which has released the locks by then. An object that was moved from is
/// empty.
///
/// Preconditions: operator[] needs an index below size().
///
/// Thread safety: distinct objects are independent. Const members may be called concurrently. The handles may
/// be used as held_lock says, but not while another thread calls release(), moves, assigns or destroys the
/// whole.
class held_locks {
 public:
  held_locks() noexcept = default;
  held_locks(held_locks&& other) noexcept : locks_(std::exchange(other.locks_, {})) {}
  /// First releases the locks of this object.
  held_locks& operator=(held_locks&& other) noexcept {
    if (this == &other) return *this;
    give_back();
    locks_ = std::exchange(other.locks_, {});
    return *this;
  }
  ~held_locks() { give_back(); }

  /// In the order of the names in the call.
  std::size_t size() const noexcept { return locks_.size(); }
  bool empty() const noexcept { return locks_.empty(); }
  held_lock& operator[](std::size_t i) noexcept { return locks_[i]; }
  held_lock const& operator[](std::size_t i) const noexcept { return locks_[i]; }
  auto begin() noexcept { return locks_.begin(); }
  auto end() noexcept { return locks_.end(); }
  auto begin() const noexcept { return locks_.begin(); }
  auto end() const noexcept { return locks_.end(); }

  /// True while each of them is held, and there is one.
  [[nodiscard]] ROWLOCK_EXPORT bool valid() const noexcept;

  /// Releases those still held, in one statement where possible. Blocks for manager_options::release_timeout
  /// at most. The handles stay, and describe the former locks. A second call returns released without effect.
  /// @return released if each lock was released; otherwise the result of the first that was not
  [[nodiscard]] ROWLOCK_EXPORT release_result release() noexcept;

  /// As release(), but returns at once: see held_lock::release_later().
  ROWLOCK_EXPORT void release_later() noexcept;
  /// As release(), asynchronously: see held_lock::async_release().
  template <std::invocable<std::exception_ptr, release_result> Handler>
  void async_release(executor const& where, Handler handler) {
    async_release_with(where, async_handler<release_result>::of(std::move(handler)));
  }
  ROWLOCK_EXPORT async_result<release_result> async_release(std::reference_wrapper<executor const> where);
  template <completion_token Token, class Asio>
  auto async_release(Token&& token);

 private:
  friend class asynchronously_taken_all;
  friend class lock_manager;
  ROWLOCK_EXPORT void async_release_with(executor, std::unique_ptr<async_handler<release_result>>);
  explicit held_locks(std::vector<held_lock> locks) noexcept : locks_(std::move(locks)) {}

  ROWLOCK_EXPORT void give_back() noexcept;
  std::vector<std::shared_ptr<holding::hold>> take_live();

  std::vector<held_lock> locks_;
};

/// The result of an attempt to take several locks: as acquisition, but with held_locks.
class acquisition_of_all {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): as std::optional's
  acquisition_of_all(held_locks locks) noexcept : locks_(std::move(locks)) {}
  /// @throws error(errc::invalid_argument) if why_not is acquire_status::acquired
  ROWLOCK_EXPORT acquisition_of_all(acquire_status why_not, std::string busy_name,
                                    std::optional<holder_info> holder);
  acquisition_of_all(acquisition_of_all&& other) noexcept
      : locks_(std::move(other.locks_)),
        status_(other.status_),
        busy_(std::move(other.busy_)),
        holder_(std::move(other.holder_)) {
    other.say_empty();
  }
  /// First releases the locks of this object.
  acquisition_of_all& operator=(acquisition_of_all&& other) noexcept {
    if (this == &other) return *this;
    locks_ = std::move(other.locks_);
    status_ = other.status_;
    busy_ = std::move(other.busy_);
    holder_ = std::move(other.holder_);
    other.say_empty();
    return *this;
  }
  ~acquisition_of_all() = default;

  explicit operator bool() const noexcept { return locks_.has_value(); }
  held_locks& operator*() & noexcept { return *locks_; }
  held_locks const& operator*() const& noexcept { return *locks_; }
  /// Moves the locks out. The acquisition is then empty.
  held_locks operator*() && noexcept { return take_out(); }
  held_locks* operator->() noexcept { return &*locks_; }
  held_locks const* operator->() const noexcept { return &*locks_; }
  /// @throws error(errc::not_acquired) without locks. The message has status(), busy_name() and holder()
  ROWLOCK_EXPORT held_locks& value() &;
  ROWLOCK_EXPORT held_locks const& value() const&;
  ROWLOCK_EXPORT held_locks value() &&;  ///< moves them out

  acquire_status status() const noexcept { return status_; }
  /// The first of the busy names, as last seen; empty if unknown.
  std::string const& busy_name() const noexcept { return busy_; }
  /// The holder of busy_name().
  std::optional<holder_info> const& holder() const noexcept { return holder_; }

 private:
  void say_empty() noexcept {
    locks_.reset();
    status_ = acquire_status::cancelled;
    busy_.clear();
    holder_.reset();
  }
  held_locks take_out() noexcept {
    held_locks out(*std::move(locks_));
    say_empty();
    return out;
  }
  void require_locks() const;

  std::optional<held_locks> locks_;
  acquire_status status_ = acquire_status::acquired;
  std::string busy_;
  std::optional<holder_info> holder_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
