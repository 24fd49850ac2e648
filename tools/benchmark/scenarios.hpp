#pragma once
// What is measured, and what must come of it: two tables for each distance.

#include <optional>
#include <string>
#include <vector>

#include "crew.hpp"

namespace rowlock::bench {

/// How a scenario is measured.
enum class method {
  crew,      ///< processes and threads take and give back
  waiting,   ///< threads that wait for names which another process holds
  loop,      ///< coroutines of one event loop take and give back, or eight threads, as the system is
  command,   ///< a program is started
  syscalls,  ///< as crew, with one client, under strace
};

struct scenario {
  std::string id;
  std::string title;
  method how = method::crew;
  crew_plan plan{};
  std::string metric;  ///< the one that the table shows first
  std::vector<std::string> systems;
  std::string plot{};  ///< the picture that it belongs to
  double x = 0;        ///< where in that picture
  /// Not in --quick.
  bool long_only = false;
  /// Measured once, and for so long (a quarter of it in --quick).
  std::optional<std::chrono::milliseconds> once{};
};

/// Where the servers are: on this machine, or as far away as a cloud's. Each has scenarios and bounds of its
/// own.
enum class distance { local, cloud };

std::vector<scenario> const& scenarios(distance);

enum class rule {
  ahead,     ///< so many times better than the other one, at least
  times,     ///< so many times the other one, at most
  at_least,  ///< the number itself
  at_most,
};

/// A line of what must be reached.
struct bound {
  std::string scenario;
  std::string system;
  std::string against;  ///< empty: nothing
  std::string metric;
  rule how;
  double value;
};

std::vector<bound> const& bounds(distance);

/// "per_second" and shares are better when they are higher, times and costs when they are lower.
bool higher_is_better(std::string const& metric);

}  // namespace rowlock::bench
