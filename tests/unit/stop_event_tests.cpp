#include "base/stop_event.hpp"

#include <doctest/doctest.h>
#include <poll.h>

#include <memory>
#include <thread>

using namespace rowlock;

namespace {

bool readable(base::stop_event const& event, int timeout_ms) {
  pollfd one{event.fd(), POLLIN, 0};
  return ::poll(&one, 1, timeout_ms) == 1;
}

}  // namespace

TEST_CASE("a stop_event is readable once its token is triggered, also if it was before") {
  std::stop_source source;
  base::stop_event const before{source.get_token()};
  CHECK_FALSE(readable(before, 0));
  CHECK_FALSE(before.triggered());
  source.request_stop();
  CHECK(readable(before, 0));
  CHECK(before.triggered());
  base::stop_event const after{source.get_token()};
  CHECK(readable(after, 0));
  base::stop_event const never{std::stop_token{}};
  CHECK_FALSE(readable(never, 0));
}

// ThreadSanitizer is the judge here: the trigger writes to a descriptor that must be open until it has
// written.
TEST_CASE("a stop_event may go as soon as it is readable") {
  int told = 0;
  for (int i = 0; i < 50; ++i) {
    std::stop_source source;
    std::jthread waiter;
    {
      auto event = std::make_unique<base::stop_event>(source.get_token());
      waiter = std::jthread([&told, event = std::move(event)]() mutable {
        told += readable(*event, 10'000) ? 1 : 0;
        event.reset();
      });
    }
    source.request_stop();
  }
  CHECK(told == 50);
}
