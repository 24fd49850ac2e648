#pragma once
// A driver's call ends when its reply is complete. A hostile or broken server never completes it: it sends
// nothing, or a byte now and then, or more and more. From outside only the connection can be ended.

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/export.hpp>
#include <stop_token>
#include <thread>
#include <vector>

#include "backend/wire.hpp"
#include "base/boot_waiter.hpp"

namespace rowlock::backend {

/// A connection's socket, by a descriptor of our own: the driver closes its own when it likes, and then that
/// number may be anybody's.
class ROWLOCK_EXPORT wire {
 public:
  /// Null if there is no descriptor left for it.
  static std::shared_ptr<wire> of(int fd);
  wire(wire const&) = delete;
  wire& operator=(wire const&) = delete;
  virtual ~wire();

  int fd() const noexcept { return copy_; }
  /// Ends the connection, also under a thread that waits for something to come.
  void shut_down() const noexcept;
  /// Whether it was shut down because the server sent more than it may.
  bool overrun() const noexcept { return overrun_.load(std::memory_order_relaxed); }

 protected:
  explicit wire(int copy) noexcept : copy_(copy) {}
  void forget() noexcept;  ///< closes the copy

 private:
  friend class wire_watch;
  int copy_;
  mutable std::atomic<bool> overrun_ = false;
};

/// Shuts down the connection of a call that still waits for a reply at its deadline, or gets more than a
/// reply may have. To the driver this looks as if the server had gone. One thread for all sessions of the
/// process; begun with the first call. Thread-safe.
///
/// Bytes are counted by looking every few milliseconds while something comes. What comes between two looks is
/// not prevented: some megabytes, if the server is as near and as fast as can be.
class ROWLOCK_EXPORT wire_watch {
 public:
  wire_watch() = default;
  ~wire_watch();
  wire_watch(wire_watch const&) = delete;
  wire_watch& operator=(wire_watch const&) = delete;

  struct watched {
    std::shared_ptr<wire const> on;
    boot_time_point deadline;
    bool counted = false;
    std::uint64_t seen = 0;
    std::uint64_t until_bytes = 0;
    boot_time_point moved;
  };

  /// While this lives, the limits count.
  class ROWLOCK_EXPORT scope {
   public:
    scope(wire_watch& all, std::shared_ptr<wire const> on, boot_time_point deadline,
          std::uint64_t most_bytes = most_reply_bytes);
    ~scope();
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;

   private:
    wire_watch& all_;
    std::list<watched>::iterator entry_;
  };

 private:
  std::list<watched>::iterator add(std::shared_ptr<wire const>, boot_time_point deadline,
                                   std::uint64_t most_bytes);
  void remove(std::list<watched>::iterator) noexcept;
  boot_time_point look(bool stirred, std::vector<int>& quiet);
  void run(std::stop_token const&);

  base::boot_waiter waiter_;
  std::mutex mutex_;
  std::list<watched> watched_;
  boot_time_point asleep_until_ = boot_time_point::min();
  std::jthread thread_;  // last: it uses the others
};

}  // namespace rowlock::backend
