#include <rowlock/error.hpp>
#include <rowlock/lock_manager.hpp>

namespace rowlock {

// A program of one back end, without component rowlock: it gets this, and a sentence rather than a linker's
// error. What the component defines comes first: it stands before core in each link line, and is not weak.
// NOLINTNEXTLINE(performance-unnecessary-value-param): that one keeps its options.
[[gnu::weak]] lock_manager::lock_manager(std::string_view, manager_options) {
  throw error(errc::unsupported,
              "the constructor from a URL is in component rowlock: link rowlock::rowlock (pkg-config: "
              "rowlock; by hand: before rowlock-core), or make the lock_manager from your back end's source");
}

}  // namespace rowlock
