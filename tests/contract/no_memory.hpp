#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ROWLOCK_OTHER_ALLOCATOR
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROWLOCK_OTHER_ALLOCATOR
#endif

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

/// As long as it lives the calling thread is refused memory once: the time after `granted` others.
class memory_runs_out {
 public:
  explicit memory_runs_out(int granted) noexcept;
  ~memory_runs_out();
  memory_runs_out(memory_runs_out const&) = delete;
  memory_runs_out& operator=(memory_runs_out const&) = delete;
  /// Whether it was.
  bool has_happened() const noexcept;
};

}  // namespace rowlock::test
