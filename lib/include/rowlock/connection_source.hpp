#pragma once

#include <rowlock/version.hpp>

#include <memory>

namespace rowlock::backend {
class source;
}  // namespace rowlock::backend

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// Where a lock_manager gets its connections from. Made by one of the back ends' headers
/// (rowlock::sqlite::source, rowlock::postgresql::source); copies share it.
class connection_source {
 public:
  explicit connection_source(std::shared_ptr<backend::source> impl) noexcept : impl_(std::move(impl)) {}

  std::shared_ptr<backend::source> const& implementation() const noexcept { return impl_; }

 private:
  std::shared_ptr<backend::source> impl_;
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
