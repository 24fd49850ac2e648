#pragma once
// Processes and threads that take and give back locks of one system for a while, all at the same time.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "histogram.hpp"
#include "systems/system.hpp"

namespace rowlock::bench {

struct crew_plan {
  int processes = 1;
  int threads = 1;                       ///< in each process
  bool one_name = false;                 ///< all compete for one name; otherwise each thread has its own
  std::chrono::microseconds section{0};  ///< how long the lock is kept each time
  std::chrono::milliseconds lasts{500};  ///< the time that is measured; of one name, once each has had it
  std::string name{};                    ///< of the lock; the names of several begin with it
};

struct crew_result {
  std::vector<std::uint64_t> cycles;  ///< of each process
  std::uint64_t handovers = 0;        ///< how often one name went to another thread than before
  histogram times;                    ///< of taking and giving back, without the section
  double longest_wait = 0;            ///< seconds
  double seconds = 0;                 ///< that it lasted
  double processor_seconds = 0;       ///< of the clients alone
};

/// @throws peer_error with the text of whatever went wrong in one of the processes, if two had one name at
/// once, or if they were not ready, or not at an end, in time. All processes have ended when this returns or
/// throws.
crew_result compete(system_entry const&, std::string const& address, crew_plan const&);

/// Runs it in a process of its own, so that this one has neither connections nor threads when it forks again.
/// @throws peer_error with the text of what it threw
void in_a_child(std::chrono::milliseconds timeout, std::function<void()> const&);

}  // namespace rowlock::bench
