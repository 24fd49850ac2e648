#pragma once

#include <rowlock/version.hpp>

#include <memory>

namespace rowlock::backend {
class source;
}  // namespace rowlock::backend

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// The source of a lock_manager's connections. The back ends' headers make one (rowlock::sqlite::source,
/// rowlock::postgresql::source). Copies share their implementation.
///
/// Thread safety: distinct objects may be used by several threads at once, also copies.
class connection_source {
 public:
  /// Preconditions: `impl` is not null.
  explicit connection_source(std::shared_ptr<backend::source> impl) noexcept : impl_(std::move(impl)) {}

  std::shared_ptr<backend::source> const& implementation() const noexcept { return impl_; }

 private:
  std::shared_ptr<backend::source> impl_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
