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

/// As long as it lives the calling thread is refused memory once: the time after `granted` others.
class memory_runs_out {
 public:
  /// Not under a sanitizer, either.
  static bool is_possible() noexcept;
  explicit memory_runs_out(int granted) noexcept;
  ~memory_runs_out();
  memory_runs_out(memory_runs_out const&) = delete;
  memory_runs_out& operator=(memory_runs_out const&) = delete;
  /// Whether it was.
  bool has_happened() const noexcept;
};

}  // namespace rowlock::test
