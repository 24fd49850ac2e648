#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "process/descriptor.hpp"

namespace rowlock::tool {

/// While it exists, calls `on_signal`, once and on a thread of its own, when one of the signals of
/// signal_setup comes in.
class interrupt_watch {
 public:
  interrupt_watch(int signals, std::function<void(int)> on_signal);
  ~interrupt_watch();
  interrupt_watch(interrupt_watch const&) = delete;
  interrupt_watch& operator=(interrupt_watch const&) = delete;

 private:
  void run(int signals);

  std::function<void(int)> on_signal_;
  descriptor stop_;  ///< an eventfd
  std::jthread thread_;
};

}  // namespace rowlock::tool
