#include "base/process_end.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

namespace rowlock::base {
namespace {

using namespace std::chrono_literals;

// No mutex and no memory in this file: a signal handler might have called exit().
std::atomic<bool> ends{false};
std::atomic<bool> without_drivers{false};
std::atomic<int> in_drivers{0};
std::atomic<std::thread::id> ending_thread{};
std::atomic<std::chrono::nanoseconds::rep> spent{0};

void note_the_beginning() {
  ending_thread = std::this_thread::get_id();
  ends = true;
}

bool ends_in_this_thread() noexcept { return ends && ending_thread.load() == std::this_thread::get_id(); }

}  // namespace

void watch_for_process_end() noexcept {
  [[maybe_unused]] static int const registered = std::atexit(note_the_beginning);
}

void watch_for_process_end_of_others() noexcept {
  [[maybe_unused]] static int const registered = std::atexit(note_the_beginning);
}

bool process_ends() noexcept { return ends; }

bool process_ends_by(std::thread::id thread) noexcept { return ends && ending_thread.load() == thread; }

bool process_ends_elsewhere() noexcept { return ends && !ends_in_this_thread(); }

std::chrono::nanoseconds time_left(std::chrono::nanoseconds usual) noexcept {
  if (!ends_in_this_thread()) return usual;
  return std::max<std::chrono::nanoseconds>(usual - std::chrono::nanoseconds(spent.load()), 1ms);
}

end_time_spent::~end_time_spent() {
  if (ends_in_this_thread()) spent += (boot_clock::now() - began_).count();
}

driver_call::driver_call() noexcept {
  for (;;) {
    ++in_drivers;
    if (!without_drivers || ends_in_this_thread()) return;
    --in_drivers;
    stay_out_of_ended_drivers();
  }
}

driver_call::~driver_call() { --in_drivers; }

void drivers_end() noexcept {
  note_the_beginning();
  without_drivers = true;
  auto const until = boot_clock::now() + 100ms;
  while (in_drivers > 0 && boot_clock::now() < until) ::sched_yield();
}

void stay_out_of_ended_drivers() noexcept {
  while (without_drivers && !ends_in_this_thread()) ::pause();
}

}  // namespace rowlock::base
