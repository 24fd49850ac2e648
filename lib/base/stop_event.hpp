#pragma once

#include <stop_token>

namespace rowlock::base {

/// A std::stop_token as something to poll(2) for: fd() becomes readable when the token is triggered.
class stop_event {
 public:
  explicit stop_event(std::stop_token);
  ~stop_event();
  stop_event(stop_event const&) = delete;
  stop_event& operator=(stop_event const&) = delete;

  int fd() const noexcept { return fd_; }
  bool triggered() const noexcept { return token_.stop_requested(); }

 private:
  struct trigger {
    int fd;
    void operator()() const noexcept;
  };
  int fd_;
  std::stop_token token_;
  std::stop_callback<trigger> callback_;
};

}  // namespace rowlock::base
