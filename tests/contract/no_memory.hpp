#pragma once

namespace rowlock::test {

/// As long as it lives the calling thread gets no memory by `new`. Does nothing under a sanitizer, which has
/// an allocator of its own.
class no_memory {
 public:
  no_memory() noexcept;
  ~no_memory();
  no_memory(no_memory const&) = delete;
  no_memory& operator=(no_memory const&) = delete;
};

}  // namespace rowlock::test
