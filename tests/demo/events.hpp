#pragma once

#include <time.h>

#include <cstdint>
#include <string>

namespace rowlock::demo {

/// How a worker keeps the others away.
enum class mode {
  lease,    ///< rowlock's lease, and no look at whether it was lost
  redis,    ///< SET key token NX PX ttl
  require,  ///< the same lease, and the write in a transaction that requires it
};
char const* to_string(mode) noexcept;

/// What happens to a worker, in this order in each round.
enum class happening : int {
  granted,       ///< it believes to hold the lock from here on
  read,          ///< the counter was `value`; now it thinks
  begun,         ///< its transaction is open, and require() is called
  required,      ///< require() has said yes; the write comes next
  acknowledged,  ///< `value` was written, says the database
  refused,       ///< nothing was written: the lock is lost
  in_doubt,      ///< the reply to the COMMIT was lost
  released,      ///< it does not believe to hold the lock any more
  stopped,       ///< by the nemesis
  resumed,
};

/// Written to a pipe in one piece.
struct event {
  std::int64_t at;  ///< nanoseconds, CLOCK_MONOTONIC, which all processes share
  int worker;
  happening what;
  std::int64_t value;
};

inline std::int64_t now() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}
constexpr std::int64_t milliseconds(std::int64_t n) { return n * 1'000'000; }

}  // namespace rowlock::demo
