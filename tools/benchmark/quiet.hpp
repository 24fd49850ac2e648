#pragma once
// Who uses the machine's processors, besides the benchmark and its servers.

#include <sys/types.h>
#include <chrono>
#include <map>
#include <string>

namespace rowlock::bench {

/// Processor time up to a moment.
class usage {
 public:
  /// Now. Ours are this process, its parents' other children, and processes that have `folder` in their
  /// command line, each with its descendants.
  explicit usage(std::string const& folder);

  /// How many processors others have kept busy from then until now, on average.
  static double foreign_processors(usage const& then, usage const& now);
  /// The three that did the most: "cc1plus (pid 4711) 85 %, ...".
  static std::string foreign_names(usage const& then, usage const& now);

 private:
  struct process {
    std::string name;
    double own = 0;      ///< seconds
    double seconds = 0;  ///< its own, and that of its children that have ended
    bool ours = false;
  };
  std::map<pid_t, process> processes_;
  double busy_ = 0;  ///< of all processors
  std::chrono::steady_clock::time_point at_;
};

}  // namespace rowlock::bench
