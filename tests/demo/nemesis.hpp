#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "demo/events.hpp"

namespace rowlock::demo {

struct phase_options {
  mode how = mode::lease;
  std::string url;
  std::string redis_socket;
  int workers = 12;
  int counters = 4;
  std::chrono::milliseconds ttl{300};
  std::chrono::milliseconds duration{20'000};
};

struct outcome {
  int pauses = 0;          ///< that fell between read and write
  int in_transaction = 0;  ///< of those: after BEGIN
  std::int64_t acknowledged = 0;
  std::int64_t found = 0;  ///< the counters' sum at the end
  std::int64_t refused = 0;
  std::int64_t in_doubt = 0;
  std::vector<event> log{};
  std::int64_t lost() const { return acknowledged - found; }
};

/// Has workers add to counters that are made anew, and stops one or the other of them (SIGSTOP) between read
/// and write, for longer than its lock lasts. At most one at a time for each counter. Throws if a worker ends
/// before its time.
outcome run_phase(phase_options const&);

}  // namespace rowlock::demo
