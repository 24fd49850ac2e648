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
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): what it is made of
  covering_lock(held_lock lock) noexcept : lock_(std::move(lock)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  covering_lock(quorum_lock lock) noexcept : lock_(std::move(lock)) {}

  std::string const& name() const {
    return std::visit([](auto const& l) -> std::string const& { return l.name(); }, lock_);
  }
  fencing_token token() const {
    return std::visit([](auto const& l) { return l.token(); }, lock_);
  }
  /// Empty for a quorum's, whose terms are nobody's business.
  std::string term() const {
    auto const* const one = std::get_if<held_lock>(&lock_);
    return one == nullptr ? std::string() : one->term().value;
  }
  /// Empty where there is no trust in the future.
  std::optional<boot_time_point> trusted_until() const {
    return std::visit([](auto const& l) { return std::optional<boot_time_point>(l.trusted_until()); }, lock_);
  }
  std::optional<loss_reason> loss() const {
    return std::visit([](auto const& l) { return l.loss(); }, lock_);
  }
  std::stop_token loss_token() const {
    return std::visit([](auto const& l) { return l.loss_token(); }, lock_);
  }
  release_result release() noexcept {
    return std::visit([](auto& l) { return l.release(); }, lock_);
  }
  /// Precondition: it is one database's.
  held_lock& single() { return std::get<held_lock>(lock_); }

 private:
  std::variant<held_lock, quorum_lock> lock_;
};

}  // namespace rowlock::tool
