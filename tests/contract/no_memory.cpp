#include "contract/no_memory.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local bool starved = false;
thread_local int until_refused = 0;  // 0: never
}  // namespace

namespace rowlock::test {

no_memory::no_memory() noexcept { starved = true; }
no_memory::~no_memory() { starved = false; }

memory_runs_out::memory_runs_out(int granted) noexcept { until_refused = granted + 1; }
memory_runs_out::~memory_runs_out() { until_refused = 0; }
bool memory_runs_out::has_happened() const noexcept { return until_refused == 0; }

}  // namespace rowlock::test

#ifndef ROWLOCK_OTHER_ALLOCATOR
// The other forms of new and delete call these.
// NOLINTBEGIN(cppcoreguidelines-no-malloc,hicpp-no-malloc,misc-new-delete-overloads)
void* operator new(std::size_t size) {
  bool const refused = starved || (until_refused > 0 && --until_refused == 0);
  auto* const got = refused ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (got == nullptr) throw std::bad_alloc();
  return got;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
// NOLINTEND(cppcoreguidelines-no-malloc,hicpp-no-malloc,misc-new-delete-overloads)
#endif
