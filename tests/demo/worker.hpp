#pragma once

#include <chrono>
#include <string>

#include "demo/events.hpp"

namespace rowlock::demo {

struct worker_options {
  int number = 0;   ///< its own, from 0
  int counter = 0;  ///< the one that it adds to
  mode how = mode::lease;
  std::string url;
  std::string redis_socket;
  std::chrono::milliseconds ttl{300};
};

/// Adds one to a counter, again and again, until SIGTERM; what happens goes to standard output, an `event`
/// each. Ends with the process that started it.
void work(worker_options const&);

}  // namespace rowlock::demo
