#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "systems/redis_connection.hpp"

namespace rowlock::bench {

/// How the threads of a process wait for Redis' locks, as Redisson does it: one subscription for each lock
/// that any of them waits for, and each message lets one of them try. Where Redisson has a thread that reads,
/// here one of those that wait does, so that the only one that waits is woken without a detour.
class redis_hub {
 public:
  explicit redis_hub(std::string address) : address_(std::move(address)) {}

  /// Until attempt() says yes. @return false if `stop` came first
  bool wait(std::string const& channel, std::function<bool()> const& attempt, std::stop_token const& stop) {
    std::unique_lock guard(mutex_);
    auto& mine = enter(channel);
    bool got = false;
    while (!got && !stop.stop_requested()) {
      if (mine.permits > 0) {
        --mine.permits;
        guard.unlock();
        got = attempt();
        guard.lock();
      } else if (!reading_) {
        read(guard);
      } else {
        changed_.wait_for(guard, std::chrono::milliseconds(100));
      }
    }
    leave(channel, mine);
    return got;
  }

 private:
  struct entry {
    int waiting = 0;
    int permits = 0;  ///< attempts that messages have allowed
  };

  entry& enter(std::string const& channel) {
    auto& mine = entries_[channel];
    if (++mine.waiting == 1) {
      if (!connection_) connection_.emplace(address_);
      connection_->send_now({"SUBSCRIBE", channel});
    } else {
      // Subscribed already: one look, because the message may have come before us.
      ++mine.permits;
    }
    return mine;
  }

  void leave(std::string const& channel, entry& mine) {
    if (--mine.waiting == 0) {
      // Nobody waits for the answer to this.
      connection_->send_now({"UNSUBSCRIBE", channel});
      entries_.erase(channel);
    }
    // Somebody else must read now.
    changed_.notify_all();
  }

  void read(std::unique_lock<std::mutex>& guard) {
    reading_ = true;
    guard.unlock();
    auto const said = connection_->reply_within(100);
    guard.lock();
    reading_ = false;
    if (!said || said->type != REDIS_REPLY_ARRAY || said->elements < 2) return;
    std::string_view const kind(said->element[0]->str, said->element[0]->len);
    auto const found = entries_.find(std::string(said->element[1]->str, said->element[1]->len));
    if (found == entries_.end() || (kind != "message" && kind != "subscribe")) return;
    ++found->second.permits;
    // The reader itself is one that may try.
    if (found->second.waiting > 1) changed_.notify_all();
  }

  std::string address_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<redis_connection> connection_;
  std::map<std::string, entry> entries_;
  bool reading_ = false;  ///< one of the threads that wait reads
};

}  // namespace rowlock::bench
