#pragma once
// A driver's call ends when its reply is complete. A hostile or faulty server sends nothing, single bytes, or
// endless bytes. From outside rowlock can only end the connection.

#include <atomic>
#include <cstddef>
#include <cstdint>
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

/// A connection's socket, by a duplicate descriptor. The driver can close its own at any time, and then
/// another file can get the number.
class ROWLOCK_EXPORT wire {
 public:
  /// Null if no descriptor is left.
  static std::shared_ptr<wire> of(int fd);
  wire(wire const&) = delete;
  wire& operator=(wire const&) = delete;
  virtual ~wire();

  int fd() const noexcept { return copy_; }
  /// Ends the connection, even while a thread waits on it.
  void shut_down() const noexcept;
  /// Whether the server sent too much, and was shut down for it.
  bool overrun() const noexcept { return overrun_.load(std::memory_order_relaxed); }

 protected:
  explicit wire(int copy) noexcept : copy_(copy) {}
  void forget() noexcept;

 private:
  friend class wire_watch;
  int copy_;
  mutable std::atomic<bool> overrun_ = false;
};

/// Shuts down the connection of a call that waits beyond its deadline, or gets too long a reply. To the
/// driver the server looks gone. The first call starts one thread for all sessions of the process.
/// Thread-safe.
///
/// While bytes come, the thread counts them every few milliseconds, from its first look at the call. Before
/// and in between a near and fast server can send some megabytes more.
class ROWLOCK_EXPORT wire_watch {
 public:
  wire_watch() = default;
  ~wire_watch();
  wire_watch(wire_watch const&) = delete;
  wire_watch& operator=(wire_watch const&) = delete;

  /// A call. The thread alone counts its bytes, from its first look: most calls end before.
  struct watched {
    std::shared_ptr<wire const> on;
    boot_time_point deadline;
    std::uint64_t most_bytes = 0;
    std::optional<std::uint64_t> seen{};
    std::uint64_t until_bytes = 0;
    boot_time_point moved{};
    std::size_t place = 0;
  };

  /// The limits apply during its lifetime.
  class ROWLOCK_EXPORT scope {
   public:
    scope(wire_watch& all, std::shared_ptr<wire const> on, boot_time_point deadline,
          std::uint64_t most_bytes = most_reply_bytes);
    ~scope();
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;

   private:
    wire_watch& all_;
    watched entry_;
  };

 private:
  void add(watched&);
  void remove(watched const&) noexcept;
  boot_time_point look(bool stirred, std::vector<int>& quiet);
  void run(std::stop_token const&);

  base::boot_waiter waiter_;
  std::mutex mutex_;
  std::vector<watched*> watched_;
  bool stirs_ = false;  ///< a call came since the thread's last look
  boot_time_point asleep_until_ = boot_time_point::min();
  std::jthread thread_;  // last: it uses the other members
};

}  // namespace rowlock::backend
