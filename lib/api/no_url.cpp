#include <rowlock/error.hpp>
#include <rowlock/lock_manager.hpp>

namespace rowlock {

// For a program that links one back end without component rowlock: a clear error instead of a linker error.
// The component's own definition is not weak, and comes first in each link line.
// NOLINTNEXTLINE(performance-unnecessary-value-param): the component's definition keeps its options.
[[gnu::weak]] lock_manager::lock_manager(std::string_view, manager_options) {
  throw error(errc::unsupported,
              "the constructor from a URL is in component rowlock: link rowlock::rowlock (pkg-config: "
              "rowlock; by hand: before rowlock-core), or make the lock_manager from your back end's source");
}

}  // namespace rowlock
