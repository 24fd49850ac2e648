#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <type_traits>

namespace rowlock::bench {

/// So many T, all zero bytes, shared with the processes that are forked later.
template <class T>
class shared_memory {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit shared_memory(std::size_t count)
      : count_(count),
        all_(static_cast<T*>(
            ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (static_cast<void*>(all_) == MAP_FAILED) throw std::bad_alloc();
  }
  shared_memory(shared_memory const&) = delete;
  shared_memory& operator=(shared_memory const&) = delete;
  ~shared_memory() { ::munmap(all_, count_ * sizeof(T)); }

  std::size_t size() const noexcept { return count_; }
  T& operator[](std::size_t i) noexcept { return all_[i]; }
  T const& operator[](std::size_t i) const noexcept { return all_[i]; }
  T* begin() noexcept { return all_; }
  T* end() noexcept { return all_ + count_; }

 private:
  std::size_t count_;
  T* all_;
};

}  // namespace rowlock::bench
