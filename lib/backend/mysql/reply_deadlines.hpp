#pragma once
// The connector waits for a reply as many whole seconds as the connection was opened with, and can't be told
// to stop. What can be ended is the connection, from another thread.

#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "backend/mysql/own_socket.hpp"
#include "base/boot_waiter.hpp"

namespace rowlock::backend::mysql {

/// Shuts down the socket of whoever still waits for a reply at its deadline: to the connector, the server has
/// gone then. One thread for all sessions of the process; begun with the first deadline. Thread-safe.
class reply_deadlines {
 public:
  reply_deadlines() = default;
  ~reply_deadlines();
  reply_deadlines(reply_deadlines const&) = delete;
  reply_deadlines& operator=(reply_deadlines const&) = delete;

  using entry = std::multimap<boot_time_point, std::shared_ptr<own_socket const>>::iterator;

  /// While this lives, the deadline counts.
  class scope {
   public:
    scope(reply_deadlines& all, std::shared_ptr<own_socket const> socket, boot_time_point deadline)
        : all_(all), entry_(all.add(std::move(socket), deadline)) {}
    ~scope() { all_.remove(entry_); }
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;

   private:
    reply_deadlines& all_;
    entry entry_;
  };

 private:
  entry add(std::shared_ptr<own_socket const>, boot_time_point deadline);
  void remove(entry) noexcept;
  boot_time_point shut_down_late();
  void run(std::stop_token const&);

  base::boot_waiter waiter_;
  std::mutex mutex_;
  std::multimap<boot_time_point, std::shared_ptr<own_socket const>> waiting_;
  boot_time_point asleep_until_ = boot_time_point::min();
  std::jthread thread_;  // last: it uses the others
};

}  // namespace rowlock::backend::mysql
