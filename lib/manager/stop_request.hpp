#pragma once
#include <stop_token>
#include <utility>

#include "base/process_end.hpp"
#include "manager/engine.hpp"
#include "waiting/bell.hpp"

namespace rowlock::managing {

/// Whether a call was told to stop. The cause is its caller's token or its manager's end (both ring the
/// call's bell), or the end of the process.
class stop_request {
 public:
  stop_request(engine const& e, std::stop_token by_caller, waiting::bell& to_ring)
      : on_caller_(std::move(by_caller), forward{source_, to_ring}),
        on_closing_(e.closing.get_token(), forward{source_, to_ring}) {}

  std::stop_token token() const noexcept { return source_.get_token(); }
  bool now() const noexcept { return source_.stop_requested() || base::process_ends_elsewhere(); }

 private:
  struct forward {
    std::stop_source to;
    waiting::bell& bell;
    void operator()() const noexcept {
      (void)std::stop_source(to).request_stop();
      bell.ring();
    }
  };
  std::stop_source const source_;
  std::stop_callback<forward> const on_caller_;
  std::stop_callback<forward> const on_closing_;
};

}  // namespace rowlock::managing
