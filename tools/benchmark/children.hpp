#pragma once
// Forked processes that begin together, are told to stop together, and never outlive this one.

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "shared_memory.hpp"

namespace rowlock::bench {

/// A file descriptor that is closed once.
class descriptor {
 public:
  explicit descriptor(int fd = -1) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  descriptor& operator=(descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~descriptor() { close(); }
  void close() noexcept;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

/// What a child knows of its group.
class child_line {
 public:
  child_line(int ready, int go, int stop) noexcept : ready_(ready), go_(go), stop_(stop) {}
  void say_ready() const;
  void wait_for_go() const;
  void wait_for_stop() const;

 private:
  int ready_;
  int go_;
  int stop_;
};

/// This process must have no other thread when one is made.
class child_group {
 public:
  /// Each child runs `body` with its number, from 0, and ends. What it throws is thrown here by the await_
  /// functions.
  child_group(int count, std::function<void(int, child_line const&)> const& body);
  child_group(child_group const&) = delete;
  child_group& operator=(child_group const&) = delete;
  ~child_group();  ///< ends those that still run

  void await_ready(std::chrono::milliseconds timeout);
  void go() noexcept { go_.close(); }
  void stop() noexcept { stop_.close(); }
  /// Those that have not ended by then are killed, and that is no error.
  void await_end(std::chrono::milliseconds timeout);

 private:
  struct trouble {
    char text[512];
  };
  void check() const;
  void reap(int signal) noexcept;

  shared_memory<trouble> troubles_;
  std::vector<pid_t> pids_;
  descriptor ready_;  ///< also says that all have ended
  descriptor go_;
  descriptor stop_;
};

}  // namespace rowlock::bench
