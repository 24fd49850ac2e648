#pragma once

#include <stop_token>
#include <utility>

#include "base/event.hpp"

namespace rowlock::base {

/// Makes a std::stop_token pollable. fd() becomes readable when the token is triggered.
class stop_event {
 public:
  explicit stop_event(std::stop_token token) : token_(std::move(token)), callback_(token_, trigger{event_}) {}
  stop_event(stop_event const&) = delete;
  stop_event& operator=(stop_event const&) = delete;

  int fd() const noexcept { return event_.fd(); }
  bool triggered() const noexcept { return token_.stop_requested(); }

 private:
  struct trigger {
    event const& to_set;
    void operator()() const noexcept { to_set.set(); }
  };
  // Last, so destroyed first. It waits for a trigger in another thread, which must not write to a closed and
  // reused descriptor.
  event event_;
  std::stop_token token_;
  std::stop_callback<trigger> callback_;
};

}  // namespace rowlock::base
