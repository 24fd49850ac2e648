#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

namespace rowlock::demo {

/// A Redis server of one's own, in memory, on a Unix socket; ended by the destructor, or with this process.
class redis_server {
 public:
  redis_server();
  ~redis_server();
  redis_server(redis_server const&) = delete;
  redis_server& operator=(redis_server const&) = delete;

  /// Empty if the server and its client library are here; else what is missing.
  static std::string missing();
  std::string socket() const { return folder_ + "/socket"; }

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

/// A lock as Redis' own documentation has it: SET key token NX PX ttl; given back by a script that compares
/// the token.
class redis_lock {
 public:
  redis_lock(std::string const& socket, std::string key, std::chrono::milliseconds ttl);
  ~redis_lock();
  redis_lock(redis_lock const&) = delete;
  redis_lock& operator=(redis_lock const&) = delete;

  bool try_take();
  void give_back();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace rowlock::demo
