#pragma once
// The asynchronous form of a client: all its workers are coroutines of one event loop.

#include <memory>

#include "worker.hpp"

namespace rowlock::torture {

/// `desk.o.threads` workers, which take turns as long as this exists. The end cancels the calls that wait,
/// and returns when each worker has ended.
class crowd {
 public:
  crowd() = default;
  crowd(crowd const&) = delete;
  crowd& operator=(crowd const&) = delete;
  virtual ~crowd() = default;
};

std::unique_ptr<crowd> make_crowd(desk const&);

}  // namespace rowlock::torture
