#pragma once

#include <optional>
#include <rowlock/rowlock.hpp>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>

namespace rowlock::tool {

/// A lock under which a command runs: one database's, or a quorum's. Move-only.
class covering_lock {
  // std::visit may throw.
  template <class F>
  decltype(auto) of(F const& f) const noexcept {
    if (auto const* const one = std::get_if<held_lock>(&lock_)) return f(*one);
    return f(*std::get_if<quorum_lock>(&lock_));
  }

 public:
  // NOLINTNEXTLINE(google-explicit-constructor): what it is made of
  covering_lock(held_lock lock) noexcept : lock_(std::move(lock)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  covering_lock(quorum_lock lock) noexcept : lock_(std::move(lock)) {}

  std::string const& name() const noexcept {
    return of([](auto const& l) -> std::string const& { return l.name(); });
  }
  fencing_token token() const noexcept {
    return of([](auto const& l) { return l.token(); });
  }
  /// Empty for a quorum's, whose terms are nobody's business.
  std::string term() const {
    auto const* const one = std::get_if<held_lock>(&lock_);
    return one == nullptr ? std::string() : one->term().value;
  }
  /// Empty where there is no trust in the future.
  std::optional<boot_time_point> trusted_until() const noexcept {
    return of([](auto const& l) { return std::optional<boot_time_point>(l.trusted_until()); });
  }
  std::optional<loss_reason> loss() const noexcept {
    return of([](auto const& l) { return l.loss(); });
  }
  /// Empty for a quorum's.
  std::string loss_details() const {
    auto const* const one = std::get_if<held_lock>(&lock_);
    return one == nullptr ? std::string() : one->loss_details();
  }
  std::stop_token loss_token() const noexcept {
    return of([](auto const& l) { return l.loss_token(); });
  }
  release_result release() noexcept {
    if (auto* const one = std::get_if<held_lock>(&lock_)) return one->release();
    return std::get_if<quorum_lock>(&lock_)->release();
  }
  /// Precondition: it is one database's.
  held_lock& single() { return std::get<held_lock>(lock_); }

 private:
  std::variant<held_lock, quorum_lock> lock_;
};

}  // namespace rowlock::tool
