// A hundred coroutines of one event loop take the same lock one after the other, and no thread waits:
//
//   event_loop postgresql://localhost/shop 100
//
// Any event loop will do that can be told to run something later. This one is Boost.Asio's.

#include <rowlock/rowlock.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <coroutine>
#include <exception>
#include <iostream>
#include <string>

namespace {

/// A coroutine that begins at once, and that nobody awaits.
struct task {
  struct promise_type {
    task get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

struct counts {
  int now = 0;  ///< coroutines in the section: any other number than 0 and 1 would be a broken lock
  int most = 0;
  int done = 0;
  int to_come = 0;
};

task count(rowlock::mutex& lock, rowlock::executor const& loop, counts& all, boost::asio::io_context& io) {
  try {
    auto held = co_await lock.async_acquire(loop);
    all.most = std::max(all.most, ++all.now);
    ++all.done;
    --all.now;
    co_await held.value().async_release(loop);
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
  }
  if (--all.to_come == 0) io.stop();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: event_loop URL COROUTINES\n";
    return 64;
  }
  boost::asio::io_context io;
  auto const stays = boost::asio::make_work_guard(io);
  rowlock::executor const loop([&io](rowlock::posted p) { boost::asio::post(io, std::move(p)); });
  rowlock::lock_manager manager(argv[1]);
  auto lock = manager.make_mutex("event_loop");
  counts all;
  all.to_come = std::stoi(argv[2]);
  for (int i = all.to_come; i > 0; --i) count(lock, loop, all, io);
  io.run();
  std::cout << all.done << " sections, " << all.most << " at a time\n";
  return all.done == std::stoi(argv[2]) ? 0 : 1;
} catch (std::exception const& e) {
  std::cerr << "event_loop: " << e.what() << '\n';
  return 1;
}
